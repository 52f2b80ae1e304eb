/** Forwards a delivery to the app on this computer with the headers and bytes that Halcyon would have sent. */
import { request as requestHttp, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';

export type Headers = Readonly<Record<string, string>>;

/** The result in the form of an attempt of the API; `response_code` is null without a response. */
export type Forwarded = {
  response_code: number | null;
  /** Whole milliseconds. */
  duration: number;
  outcome?: string;
  response_headers?: string;
  response_body?: string;
};

/** The limits of an exchange between Halcyon and an endpoint. */
const TIME_OUT_MS = 30_000;
const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 16 * 1024;

/** Headers of a single connection (RFC 9110 §7.6.1), which are not forwarded. */
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

function outcomeOf(error: NodeJS.ErrnoException): string {
  const { code = '' } = error;
  if (code.startsWith('HPE_')) return 'malformed';
  if (/CERT|TLS|SSL/.test(code)) return 'unreachable:tls';
  return UNREACHABLE[code] ?? 'unreachable:connect';
}

const linesOf = ({ rawHeaders }: IncomingMessage): string =>
  rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1] ?? ''}`] : [])).join('\n');

function sendRequest(address: URL, headers: Headers, body: Uint8Array, signal: AbortSignal): Promise<IncomingMessage> {
  const request = address.protocol === 'https:' ? requestHttps : requestHttp;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // A new connection each, so that a restart of the app between two deliveries breaks none.
  request(address, { method: 'POST', headers: { ...headers, 'content-length': body.length }, agent: false, signal })
    .on('response', resolve)
    .on('error', reject)
    .end(body);
  return promise;
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const kept: Buffer[] = [];
  let readBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    kept.push(chunk);
    readBytes += chunk.length;
    if (readBytes >= READ_BYTES) break;
  }
  return Buffer.concat(kept).subarray(0, KEPT_BYTES).toString().replaceAll('\0', '');
}

/** Returns the response or the failure of a forwarded delivery; throws if `stop` is aborted. Redirects are not followed. */
export async function forward(
  address: URL,
  { headers, body }: { headers: Headers; body: Uint8Array },
  { stop, nowMs }: { stop: AbortSignal; nowMs: () => number },
): Promise<Forwarded> {
  const startedMs = nowMs();
  const timeout = AbortSignal.timeout(TIME_OUT_MS);
  const duration = () => Math.round(nowMs() - startedMs);
  let response: IncomingMessage | undefined;
  try {
    response = await sendRequest(address, endToEnd(headers), body, AbortSignal.any([stop, timeout]));
    const text = await bodyOf(response);
    const response_code = response.statusCode ?? null;
    return { response_code, duration: duration(), response_headers: linesOf(response), response_body: text };
  } catch (error) {
    stop.throwIfAborted();
    const phase = response === undefined ? 'answer' : 'body';
    const outcome = timeout.aborted ? `timed_out:${phase}` : outcomeOf(error as NodeJS.ErrnoException);
    return { response_code: null, duration: duration(), outcome };
  }
}
