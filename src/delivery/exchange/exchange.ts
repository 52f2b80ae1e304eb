/** One POST and its answer: a deadline over the whole, bounded reads, no redirects, no decompression. */
import type { Dispatcher, Pool } from 'undici';
import { BlockedAddress } from './guard.ts';
import { outcomeOfReply, type Outcome } from './outcome.ts';

export type ExchangeLimits = { exchangeTimeoutMs: number; answerReadBytes: number; answerKeptBytes: number };

export type Exchange = { outcome: Promise<Outcome>; abort: () => void };

/** The exchange was aborted by ourselves: nothing is known of it, and nothing is recorded. */
export class Aborted extends Error {}
class TimedOut extends Error {}
class ReadEnough extends Error {}

const DNS_FAULT_OF_THE_NAME: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'EAI_NONAME']);
const DNS_FAULT_OF_OURS: ReadonlySet<string> = new Set([
  'EAI_AGAIN',
  'EAI_FAIL',
  'EAI_SYSTEM',
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
]);
const CONNECT_FAULTS: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'EACCES',
]);
const CONNECT_TIMEOUTS: ReadonlySet<string> = new Set(['UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT']);

const isTls = (code: string): boolean =>
  /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO|HOSTNAME_)/.test(code);

const codeOf = (error: Error): string => {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined) return code;
  return error instanceof AggregateError && error.errors[0] instanceof Error ? codeOf(error.errors[0]) : '';
};

/** Whose fault an exchange without an answer was. */
export const outcomeOfError = (error: Error, wasSent: boolean): Outcome => {
  if (error instanceof BlockedAddress) return { kind: 'blocked', why: error.message, reply: null };
  const code = codeOf(error);
  if (error instanceof TimedOut) return { kind: 'timed_out', phase: wasSent ? 'answer' : 'connect', reply: null };
  if (CONNECT_TIMEOUTS.has(code)) return { kind: 'timed_out', phase: 'connect', reply: null };
  if (DNS_FAULT_OF_OURS.has(code)) return { kind: 'ours', why: code, reply: null };
  if (DNS_FAULT_OF_THE_NAME.has(code)) return { kind: 'unreachable', why: 'dns', reply: null };
  if (isTls(code)) return { kind: 'unreachable', why: 'tls', reply: null };
  if (CONNECT_FAULTS.has(code)) return { kind: 'unreachable', why: 'connect', reply: null };
  return { kind: 'unreachable', why: 'reset', reply: null };
};

const headerText = (headers: Readonly<Record<string, string | string[] | undefined>>, bytes: number): string =>
  Object.entries(headers)
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => `${name}: ${one ?? ''}`))
    .join('\n')
    .replaceAll('\0', '')
    .slice(0, bytes);

/** What is kept of an answer is text: bytes that are not become U+FFFD, and PostgreSQL stores no NUL. */
const bodyText = (chunks: readonly Buffer[], bytes: number): string =>
  Buffer.concat(chunks).subarray(0, bytes).toString('utf8').replaceAll('\0', '');

/** Starts the exchange. Its outcome rejects with `Aborted` after `abort()`, and with nothing else. */
export const startExchange = (
  pool: Pool,
  request: { path: string; headers: Record<string, string>; body: Uint8Array },
  limits: ExchangeLimits,
  now: () => Date,
): Exchange => {
  const { promise: outcome, resolve, reject } = Promise.withResolvers<Outcome>();
  const chunks: Buffer[] = [];
  let controller: Dispatcher.DispatchController | undefined;
  let stopped: Error | undefined;
  let wasSent = false;
  let code = 0;
  let retryAfter: string | undefined;
  let headers = '';
  let read = 0;

  const stop = (reason: Error) => {
    stopped ??= reason;
    controller?.abort(reason);
  };
  const finish = () =>
    resolve(outcomeOfReply({ code, headers, body: bodyText(chunks, limits.answerKeptBytes) }, retryAfter, now()));
  const fail = (error: Error) => {
    if (stopped instanceof Aborted) reject(stopped);
    else if (stopped instanceof ReadEnough) finish();
    else resolve(outcomeOfError(stopped ?? error, wasSent));
  };
  const deadline = setTimeout(() => {
    stop(new TimedOut());
    // A socket that is still being opened has no controller yet; the exchange is over all the same.
    if (controller === undefined) fail(new TimedOut());
  }, limits.exchangeTimeoutMs);

  const handler: Dispatcher.DispatchHandler = {
    onRequestStart: (started) => {
      controller = started;
      wasSent = true;
      if (stopped !== undefined) started.abort(stopped);
    },
    onResponseStart: (_controller, status, answered) => {
      if (status < 200) return;
      code = status;
      const after = answered['retry-after'];
      retryAfter = Array.isArray(after) ? after[0] : after;
      headers = headerText(answered, limits.answerKeptBytes);
    },
    onResponseData: (_controller, chunk) => {
      if (read < limits.answerKeptBytes) chunks.push(chunk);
      read += chunk.length;
      if (read > limits.answerReadBytes) stop(new ReadEnough());
    },
    onResponseEnd: () => {
      clearTimeout(deadline);
      finish();
    },
    onResponseError: (_controller, error) => {
      clearTimeout(deadline);
      fail(error);
    },
  };
  pool.dispatch({ method: 'POST', path: request.path, headers: request.headers, body: request.body }, handler);
  return {
    outcome,
    abort: () => {
      clearTimeout(deadline);
      stop(new Aborted());
      if (controller === undefined) reject(new Aborted());
    },
  };
};
