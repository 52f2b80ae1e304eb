/** One delivery goes on to the app on this computer as it would have come from Halcyon: the same headers, the same bytes. */
import { request as requestHttp, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';

export type Headers = Readonly<Record<string, string>>;

/** As the server keeps it of an attempt; `response_code` is null where no answer came. */
export type Forwarded = {
  response_code: number | null;
  /** Milliseconds, whole. */
  duration: number;
  outcome?: string;
  response_headers?: string;
  response_body?: string;
};

/** Those of an exchange between Halcyon and an endpoint. */
const TIME_OUT_MS = 30_000;
const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 16 * 1024;

/** They speak of the connection that something came over (RFC 9110 §7.6.1), and this is another one. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const endToEnd = (headers: Headers): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name.toLowerCase())));

const UNREACHABLE: Readonly<Record<string, string>> = {
  ENOTFOUND: 'unreachable:dns',
  EAI_AGAIN: 'unreachable:dns',
  ECONNRESET: 'unreachable:reset',
  EPIPE: 'unreachable:reset',
};

const outcomeOf = (error: NodeJS.ErrnoException): string => {
  const { code = '' } = error;
  if (code.startsWith('HPE_')) return 'malformed';
  if (/CERT|TLS|SSL/.test(code)) return 'unreachable:tls';
  return UNREACHABLE[code] ?? 'unreachable:connect';
};

const linesOf = ({ rawHeaders }: IncomingMessage): string =>
  rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1] ?? ''}`] : [])).join('\n');

const headOf = (address: URL, headers: Headers, body: Uint8Array, signal: AbortSignal): Promise<IncomingMessage> => {
  const request = address.protocol === 'https:' ? requestHttps : requestHttp;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // A connection each: an app that is restarted between two deliveries breaks none.
  request(address, { method: 'POST', headers: { ...headers, 'content-length': body.length }, agent: false, signal })
    .on('response', resolve)
    .on('error', reject)
    .end(body);
  return promise;
};

const bodyOf = async (answer: IncomingMessage): Promise<string> => {
  const kept: Buffer[] = [];
  let readBytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    kept.push(chunk);
    readBytes += chunk.length;
    if (readBytes >= READ_BYTES) break;
  }
  return Buffer.concat(kept).subarray(0, KEPT_BYTES).toString().replaceAll('\0', '');
};

/** Answers what came back, also where nothing did; throws where `stop` said so. A redirect is an answer, and not followed. */
export const forward = async (
  address: URL,
  { headers, body }: { headers: Headers; body: Uint8Array },
  { stop, nowMs }: { stop: AbortSignal; nowMs: () => number },
): Promise<Forwarded> => {
  const beganMs = nowMs();
  const late = AbortSignal.timeout(TIME_OUT_MS);
  const duration = () => Math.round(nowMs() - beganMs);
  let answer: IncomingMessage | undefined;
  try {
    answer = await headOf(address, endToEnd(headers), body, AbortSignal.any([stop, late]));
    const text = await bodyOf(answer);
    const response_code = answer.statusCode ?? null;
    return { response_code, duration: duration(), response_headers: linesOf(answer), response_body: text };
  } catch (error) {
    stop.throwIfAborted();
    const phase = answer === undefined ? 'answer' : 'body';
    const outcome = late.aborted ? `timed_out:${phase}` : outcomeOf(error as NodeJS.ErrnoException);
    return { response_code: null, duration: duration(), outcome };
  }
};
