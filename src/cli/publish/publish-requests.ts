/** Opens the publisher of packages/publisher for a command: it retries for a limited time, and its errors name options. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { createLoader, createPublisher, PublishError, type Fault, type Publisher } from '#publisher';
import { retryAfterMs } from '#retry-after';
import { UserError, EXIT } from '../explain.ts';
import { causeOf, DOCUMENT_BYTES_MAX, textOf } from '../session/json-request.ts';
import type { PublishTarget } from './publish-target.ts';

/** What became of a line that is published or loaded. `isKept`: the server has it already, or a newer version. */
type Done = { isKept: boolean; warnings: readonly string[] };
/** The result of a line; the reasons if it is refused, an error if nothing can be sent. */
export type Outcome = Done | readonly string[] | Error;

/** What a command does with the lines: `publish` or `load`. */
export type Task = { command: 'publish' } | { command: 'load'; isDryRun: boolean };

type Options = {
  retryForSeconds: number;
  keepsGoing: boolean;
  clock: Clock;
  random: () => number;
  /** Called once per interruption. */
  warn: (text: string) => void;
  /** Called when the server has not published for `retryForSeconds`; it closes the publisher. */
  onGivenUp: (error: UserError) => void;
};

/** How long an incomplete request waits for the next line of a slow pipe. */
const IDLE_MS = 100;
const REQUEST_MS = 90_000;
/** Idempotency keys are kept for 24 hours. `retryForSeconds` ends a command earlier. */
const DEADLINE_MS = 23 * 3_600_000;
/** Events of the request that is sent, and of the one after it. */
const WAITING_EVENTS = 1_000;

const CREDENTIALS_ADVICE =
  '. Check --url, --client-id and its secret; without them, HALCYON_DATA must be the folder of the running demo';

/** What a request of the publisher is about: a form asks for a token (RFC 6749 §4.4.2), JSON has events. */
type Subject = 'token' | 'events';

/** Watches the requests of a publisher through its `fetch` and its clock, because it repeats them by itself. */
function watchRequests({ clock, random, retryForSeconds, warn, onGivenUp }: Options) {
  const last = { subject: 'token' as Subject, problem: '', requestedMs: 0, startedMs: 0, tries: 0, isRepeated: false };
  const send: typeof fetch = async (input, init) => {
    if (!last.isRepeated) Object.assign(last, { startedMs: clock.monotonicMs(), tries: 0 });
    const subject: Subject = init?.body instanceof URLSearchParams ? 'token' : 'events';
    Object.assign(last, { subject, isRepeated: false, requestedMs: 0 });
    try {
      const response = await fetch(input, init);
      // The body is read here, because a connection can break in the middle of a response.
      const text = await textOf(response, DOCUMENT_BYTES_MAX);
      last.problem = `the server answers ${response.status}`;
      last.requestedMs = retryAfterMs(response.headers.get('Retry-After'), clock.now().getTime());
      return new Response(text === '' ? null : text, response);
    } catch (error) {
      last.problem = `no answer from the server (${causeOf(error)})`;
      throw error;
    }
  };
  const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
    if (signal.aborted) return;
    const { problem, requestedMs, startedMs, tries } = last;
    if (clock.monotonicMs() + ms - startedMs > retryForSeconds * 1000) {
      const requested = requestedMs > 0 ? ` and requests a wait of ${Math.ceil(requestedMs / 1000)} s` : '';
      onGivenUp(new UserError(`${problem}${requested}; --retry-for allows ${retryForSeconds} s`, EXIT.unreachable));
      return;
    }
    if (tries === 0) warn(`${problem}: retrying for ${retryForSeconds} s`);
    Object.assign(last, { tries: tries + 1, isRepeated: true });
    await pause(ms, undefined, { signal }).catch(() => {});
  };
  return { last, send, clock: { nowMs: clock.monotonicMs, wait, random } };
}

const textOfFault = ({ field = '', message }: Fault): string =>
  message.startsWith(field) ? message : `${field}: ${message}`;

/** Returns why a line is not published or loaded. */
function outcomeOf(error: unknown, target: PublishTarget, subject: Subject): Outcome {
  if (!(error instanceof PublishError)) return error as Error;
  const { code, status, faults, message } = error;
  if (code === 'closed') return error;
  if (code === 'refused' || code === 'invalid_event') {
    if (faults.length === 0) return [message];
    return faults.map(textOfFault);
  }
  if (status === undefined) return new UserError(message, EXIT.unreachable);
  if (status < 300) return new UserError(`The server at ${target.url} is no Halcyon: check --url (or HALCYON_URL)`);
  const reason = `the server answers ${status}: ${faults[0]?.message ?? 'no reason'}`;
  return new UserError(
    subject === 'token'
      ? `No token for the client ${target.clientId}: ${reason}${CREDENTIALS_ADVICE}`
      : `Nothing can be sent to store ${target.storeId}: ${reason}`,
  );
}

/** Returns the publisher or loader, and the function that sends a line with it and returns what became of the line. */
export function openPublisher(
  target: PublishTarget,
  options: Options & { task: Task },
): { publisher: Pick<Publisher, 'ready' | 'close'>; send: (text: string) => Promise<Outcome> } {
  const { url, clientId, clientSecret, versionHeader, storeId } = target;
  const { last, send: fetchWatched, clock } = watchRequests(options);
  const settings = {
    baseUrl: url,
    clientId,
    clientSecret,
    versionHeader,
    delayMs: IDLE_MS,
    waitingEvents: WAITING_EVENTS,
    deadlineMs: DEADLINE_MS,
    requestTimeoutMs: REQUEST_MS,
    closeAtRejected: !options.keepsGoing,
    fetch: fetchWatched,
    clock,
  };
  const failed = (error: unknown): Outcome => outcomeOf(error, target, last.subject);
  if (options.task.command === 'load') {
    const loader = createLoader({ ...settings, dryRun: options.task.isDryRun });
    const load = (text: string): Promise<Outcome> =>
      loader
        .load(storeId, text)
        .then(({ result, warnings }) => ({ isKept: result === 'kept', warnings: warnings.map(textOfFault) }), failed);
    return { publisher: loader, send: load };
  }
  const publisher = createPublisher(settings);
  const publish = (text: string): Promise<Outcome> =>
    publisher
      .publish(storeId, text)
      .then(({ warnings = [] }) => ({ isKept: false, warnings: warnings.map(textOfFault) }), failed);
  return { publisher, send: publish };
}
