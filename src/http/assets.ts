/** GET /assets/:file: the scripts of pages, compressed once, and the operator's logo, at addresses that never have another content. */
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { notFound } from '#core/problem.ts';
import { scripts, type Script } from '#hypermedia/scripts.ts';
import { isKnown } from './reply.ts';
import type { RawHandler } from './route.ts';

const YEAR_SECONDS = 31_536_000;

type Encoded = { encoding: 'br' | 'gzip' | undefined; body: Buffer };

/** In the order of preference. */
const encodedOf = ({ body }: Script): readonly Encoded[] => [
  { encoding: 'br', body: brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: body.length } }) },
  { encoding: 'gzip', body: gzipSync(body, { level: constants.Z_BEST_COMPRESSION }) },
  { encoding: undefined, body },
];

/** Returns whether the header accepts the encoding (RFC 9110 §12.5.3); a wildcard does not count. */
function accepts(header: string, encoding: string): boolean {
  return header.split(',').some((part) => {
    const [name = '', quality = 'q=1'] = part.toLowerCase().split(';');
    return name.trim() === encoding && !/^q=0(\.0*)?$/.test(quality.trim());
  });
}

type Picture = { file: string; mediaType: string; body: Buffer };

/** Creates the handler of the scripts and of the logo. */
export function createAssets(logo: Picture | undefined): RawHandler {
  const files = new Map<string, readonly Encoded[]>(scripts.map((script) => [script.file, encodedOf(script)]));
  // Pictures are compressed already.
  if (logo !== undefined) files.set(logo.file, [{ encoding: undefined, body: logo.body }]);
  return async ({ params, headers }) => {
    const file = params['file'] ?? '';
    const accepted = headers['accept-encoding'] ?? '';
    const chosen = files.get(file)?.find(({ encoding }) => encoding === undefined || accepts(accepted, encoding));
    if (chosen === undefined) throw notFound('file');
    const { encoding, body } = chosen;
    const etag = `"${file}-${encoding ?? 'identity'}"`;
    const caching = {
      'Cache-Control': `public, max-age=${YEAR_SECONDS}, immutable`,
      ETag: etag,
      Vary: 'Accept-Encoding',
    };
    if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: caching, body: '' };
    return {
      status: 200,
      headers: {
        ...caching,
        'Content-Type': file === logo?.file ? logo.mediaType : 'text/javascript; charset=utf-8',
        'Content-Security-Policy': "default-src 'none'; sandbox",
        'Cross-Origin-Resource-Policy': 'same-origin',
        ...(encoding && { 'Content-Encoding': encoding }),
      },
      body,
    };
  };
}
