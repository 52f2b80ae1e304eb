/** Sends one request with events, and repeats it with the same idempotency key until there is a response or the deadline. */
import { PublishError } from './error.ts';
import { exchange, type Answer, type Connection } from './exchange.ts';
import type { QueuedEvent } from './queue.ts';
import { createTokens, type Credentials } from './tokens.ts';

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;

/** `mayBePublished`: an earlier attempt may have published the events. */
export type Response = Extract<Answer, { kind: 'response' }> & { mayBePublished: boolean };

/** Returns the response for events of one store; throws a `PublishError` without one. */
export type Request = (events: readonly QueuedEvent[]) => Promise<Response>;

/** Returns an exponential backoff with 50 % jitter, so that publishers that were disconnected together do not retry together. */
function backoffMs(tries: number, random: number): number {
  const mostMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries);
  return mostMs / 2 + (mostMs / 2) * random;
}

/**
 * Where items are sent. `path`: below the store. `sendsLines`: the body is lines of JSON and no array; each has a result of its own and can
 * be repeated, so the request needs no idempotency key. `example`: an item.
 */
export type Target = { path: string; sendsLines: boolean; example: string };

/** JSON text may contain line breaks between its members only: within a string they are escaped. */
const oneLine = (text: string): string => text.replaceAll(/[\r\n]+/g, ' ');

type RequestOptions = { connection: Connection; credentials: Credentials; deadlineMs: number; target: Target };

export function createRequest({ connection, credentials, deadlineMs, target }: RequestOptions): Request {
  const tokens = createTokens(connection, credentials);
  const { clock, stop } = connection;

  const attempt = async (path: string, key: string | undefined, body: string) => {
    const access = await tokens.current();
    if (access.kind !== 'token') return { answer: access, token: '' };
    const headers = {
      'Content-Type': target.sendsLines ? 'application/x-ndjson' : 'application/json',
      Authorization: `Bearer ${access.token}`,
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    };
    return { answer: await exchange(connection, path, { headers, body }), token: access.token };
  };

  return async (events) => {
    const [first, newest] = [events[0], events.at(-1)];
    if (first === undefined || newest === undefined) throw new TypeError('A batch has at least one event');
    const untilMs = newest.queuedMs + deadlineMs;
    const path = `/stores/${first.storeId}/${target.path}`;
    // Each event has a key, or the request has one.
    const key = !target.sendsLines && first.key === undefined ? crypto.randomUUID() : undefined;
    const texts = events.map(({ text }) => text);
    const body = target.sendsLines ? texts.map(oneLine).join('\n') : `[${texts.join(',')}]`;
    let [mayBePublished, isRenewed, tries] = [false, false, 0];
    let problem = 'the events before it took as long';
    for (;;) {
      if (stop.aborted) throw new PublishError('closed', 'The publisher was closed', { mayBePublished });
      if (clock.nowMs() >= untilMs) break;
      const { answer, token } = await attempt(path, key, body);
      if (answer.kind === 'refused') {
        const { code, message, status, faults } = answer;
        throw new PublishError(code, message, { status, faults, mayBePublished });
      }
      if (answer.kind === 'response') {
        if (answer.status !== 401 || isRenewed) return { ...answer, mayBePublished };
        tokens.forget(token);
        isRenewed = true;
        continue;
      }
      mayBePublished ||= answer.isUnknown;
      problem = answer.problem;
      isRenewed = false;
      const waitMs = answer.waitMs + backoffMs(tries, clock.random());
      if (clock.nowMs() + waitMs >= untilMs) break;
      tries += 1;
      await clock.wait(waitMs, stop);
    }
    throw new PublishError('unavailable', `Not published within ${deadlineMs} ms: ${problem}`, { mayBePublished });
  };
}
