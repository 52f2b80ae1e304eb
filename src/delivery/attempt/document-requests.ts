/**
 * Fetches small JSON documents from addresses that strangers name: through the outbound guard, without redirects, within limits of size, time
 * and number.
 */
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { isInternalError, labelOf, type Outcome } from './http/attempt-outcome.ts';
import { SingleRequests, type SingleRequestSettings } from './single-requests.ts';

/** draft-ietf-oauth-client-id-metadata-document-03 §8.7 recommends 5 kilobytes. */
const DOCUMENT_BYTES_MAX = 5 * 1024;
/** What is kept of the headers, as much as Node.js reads by default, and of a body that is too large. */
const KEPT_BYTES_MAX = 16 * 1024;
const AT_ONCE_MAX = 16;

/** `why` is the end of a sentence that people may read. */
export type Fetched = { kind: 'document'; text: string; headers: Headers } | { kind: 'failed'; why: string };

const failed = (why: string): Fetched => ({ kind: 'failed', why });

const LATER = 'it cannot be fetched now; try again shortly';

const headersOf = (lines: string): Headers =>
  new Headers(Array.from(lines.matchAll(/^([^:]+): (.*)$/gm), ([, name = '', value = '']) => [name, value]));

/** Everything that did not respond has one text, so that no network can be explored by it. */
function fetchedOf(outcome: Outcome | undefined): Fetched {
  if (outcome === undefined || isInternalError(outcome)) return failed(LATER);
  const { kind, reply } = outcome;
  if (kind === 'blocked') return failed('this server may not fetch it from its host');
  if (reply === null) return failed('there was no valid response in time');
  if (reply.code !== 200) return failed(`the status of the response is ${reply.code} instead of 200`);
  const headers = headersOf(reply.headers);
  const [type = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';', 1);
  if (!/^application\/(?:[\w.!#$&^-]+\+)?json$/.test(type.trim()))
    return failed('its Content-Type is not application/json');
  if (Buffer.byteLength(reply.body) > DOCUMENT_BYTES_MAX)
    return failed(`it is larger than ${DOCUMENT_BYTES_MAX} bytes`);
  return { kind: 'document', text: reply.body, headers };
}

type DocumentSettings = Omit<SingleRequestSettings, 'exchangeTimeoutMs' | 'answerReadBytes' | 'answerKeptBytes'> & {
  documentTimeoutMs: number;
};

export class DocumentRequests implements Running {
  readonly #log: Runtime['log'];
  readonly #requests: SingleRequests;

  constructor(runtime: Pick<Runtime, 'guard' | 'clock' | 'log'>, settings: DocumentSettings) {
    this.#log = runtime.log;
    this.#requests = new SingleRequests(runtime, {
      ...settings,
      exchangeTimeoutMs: settings.documentTimeoutMs,
      answerReadBytes: DOCUMENT_BYTES_MAX,
      answerKeptBytes: KEPT_BYTES_MAX,
    });
  }

  /** Fetches the document at a valid https URL. */
  async fetch(url: string): Promise<Fetched> {
    if (this.#requests.isStopping || this.#requests.running >= AT_ONCE_MAX) return failed(LATER);
    const outcome = await this.#requests.send(new URL(url), { method: 'GET', headers: ['accept', 'application/json'] });
    if (outcome !== undefined) this.#log.info({ url, outcome: labelOf(outcome) }, 'metadata document fetched');
    return fetchedOf(outcome);
  }

  stop(): Promise<void> {
    return this.#requests.stop();
  }
}
