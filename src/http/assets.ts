/** GET /assets/:file: the scripts of pages, compressed once, and the operator's logo, at addresses that never have another content. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { notFound } from '#core/problem.ts';
import { icon, scripts, type Script } from '#hypermedia/shell.ts';
import { acceptsEncoding, isKnown } from './reply.ts';
import type { RawHandler } from './route.ts';

const DAY_SECONDS = 86_400;

/** GET /favicon.ico: browsers request it for every page, and log a 404 to the console if it is missing. */
export const showIcon: RawHandler = async () => ({
  status: 200,
  headers: {
    'Content-Type': icon.mediaType,
    'Content-Security-Policy': "default-src 'none'; sandbox",
    'Cache-Control': `public, max-age=${DAY_SECONDS}`,
  },
  body: icon.body,
});

const YEAR_SECONDS = 31_536_000;

type Encoded = { encoding: 'br' | 'gzip' | undefined; body: Buffer };

/** In the order of preference. */
async function encode({ body }: Script): Promise<readonly Encoded[]> {
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: body.length };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(body, { params }),
    promisify(gzip)(body, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  return [
    { encoding: 'br', body: br },
    { encoding: 'gzip', body: gz },
    { encoding: undefined, body },
  ];
}

const encoded = new Map<Script, Promise<readonly Encoded[]>>();

/** Compresses a script when it is first asked for: all of them at the start take 0.1 s. */
function encodedOf(script: Script): Promise<readonly Encoded[]> {
  const found = encoded.get(script) ?? encode(script);
  encoded.set(script, found);
  return found;
}

type Picture = { file: string; mediaType: string; body: Buffer };

/** Creates the handler of the scripts and of the logo. */
export function createAssets(logo: Picture | undefined): RawHandler {
  // Pictures are compressed already.
  const pictures = new Map<string, readonly Encoded[]>(
    logo && [[logo.file, [{ encoding: undefined, body: logo.body }]]],
  );
  return async ({ params, headers }) => {
    const file = params['file'] ?? '';
    const accepted = headers['accept-encoding'] ?? '';
    const script = scripts.find((one) => one.file === file);
    const encodings = script === undefined ? pictures.get(file) : await encodedOf(script);
    const chosen = encodings?.find(({ encoding }) => encoding === undefined || acceptsEncoding(accepted, encoding));
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
