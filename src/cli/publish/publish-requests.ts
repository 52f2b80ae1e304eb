/** Sends the two requests of `publish`: for a token of the platform, and with events. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { retryAfterMs } from '#retry-after';
import { UserError, EXIT } from '../explain.ts';
import { objectIn, causeOf } from '../session/json-request.ts';
import type { Entry } from './batches.ts';
import type { PublishTarget } from './publish-target.ts';

// Retries a request while the server is unreachable, restarting or busy, up to a time limit.

type RetryOptions = {
  retryForSeconds: number;
  clock: Clock;
  random: () => number;
  /** A stop signal aborts it. */
  stop: AbortSignal;
  /** Called once per interruption. */
  warn: (text: string) => void;
};

/** A complete response. */
type Reply = { status: number; retryAfter: string | null; text: string };

const FIRST_MS = 200;
const LONGEST_MS = 10_000;

/** Includes 500: events have idempotency keys, so a retry publishes nothing twice. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Returns an exponential backoff with 50 % jitter, so that clients that were disconnected together do not retry together. */
function backoffMs(tries: number, random: number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** tries);
  return most / 2 + (most / 2) * random;
}

/** Returns the first response with a permanent status; throws a `UserError` after the time limit, and the reason of `stop`. */
async function withRetries(request: () => Promise<Reply>, options: RetryOptions): Promise<Reply> {
  const { clock, random, stop, warn, retryForSeconds } = options;
  const startedMs = clock.monotonicMs();
  for (let tries = 0; ; tries += 1) {
    let problem: string;
    let requestedMs = 0;
    try {
      const reply = await request();
      if (!TEMPORARY.has(reply.status)) return reply;
      requestedMs = retryAfterMs(reply.retryAfter, clock.now().getTime());
      problem = `the server answers ${reply.status}`;
    } catch (error) {
      stop.throwIfAborted();
      problem = `no answer from the server (${causeOf(error)})`;
    }
    const waitMs = Math.max(requestedMs, backoffMs(tries, random()));
    if (clock.monotonicMs() + waitMs - startedMs > retryForSeconds * 1000) {
      const requested = requestedMs > 0 ? ` and requests a wait of ${Math.ceil(requestedMs / 1000)} s` : '';
      throw new UserError(`${problem}${requested}; --retry-for allows ${retryForSeconds} s`, EXIT.unreachable);
    }
    if (tries === 0) warn(`${problem}: retrying for ${retryForSeconds} s`);
    await pause(waitMs, undefined, { signal: stop });
  }
}

/** A fault of a rejected event; `at` is its index in the array if the server names it. */
export type Fault = { at: number | undefined; message: string };

/** Publishes events; returns undefined if all are published, otherwise their faults. Throws a `UserError` for any other failure. */
export type Send = (entries: readonly Entry[]) => Promise<readonly Fault[] | undefined>;

const REQUEST_MS = 90_000;

/** Statuses that report a fault of the events. */
const EVENT_FAULTS: ReadonlySet<number> = new Set([400, 409, 413, 422]);

/** Limits the text of an unknown response. */
const TEXT_CHARACTERS = 200;

type Errors = {
  error?: string;
  error_description?: string;
  _embedded?: Record<string, ({ message?: string; field?: string } | null)[]>;
};

function faultsOf(text: string): Fault[] {
  const { error, error_description: description, _embedded: embedded } = objectIn(text) as Errors;
  const errors = Object.values(embedded ?? {}).flat();
  const excerpt = text.replaceAll(/\s+/g, ' ').slice(0, TEXT_CHARACTERS);
  if (errors.length === 0) return [{ at: undefined, message: description ?? error ?? (excerpt || 'no reason') }];
  return errors.map((one) => {
    const { message = '', field = '' } = one ?? {};
    const [, at, member] = /^([0-9]+)(?:\.(.+))?$/.exec(field) ?? [];
    if (at === undefined) return { at: undefined, message };
    const local = message.replace(field, member ?? 'event');
    return { at: Number(at), message: member === undefined || local.includes(member) ? local : `${member}: ${local}` };
  });
}

/** Returns the error for a response of another server, such as a proxy. */
const noHalcyon = (url: string): UserError =>
  new UserError(`The server at ${url} is no Halcyon: check --url (or HALCYON_URL)`);

const CREDENTIALS_ADVICE =
  '. Check --url, --client-id and its secret; without them, HALCYON_DATA must be the folder of the running demo';

/** Returns the number of events in a response. */
const countIn = (text: string): number => Object.values(objectIn(text)['_embedded'] ?? {}).flat().length;

function refused(what: string, { status, text }: Reply, advice = ''): UserError {
  const [fault] = faultsOf(text);
  return new UserError(`${what}: the server answers ${status}: ${fault?.message ?? ''}${advice}`);
}

/** Sends a POST and returns the complete response. */
async function exchange(url: string, init: RequestInit): Promise<Reply> {
  // A redirect would turn the POST into a GET.
  const response = await fetch(url, { ...init, method: 'POST', redirect: 'manual' });
  return { status: response.status, retryAfter: response.headers.get('Retry-After'), text: await response.text() };
}

export function createSend(target: PublishTarget, retry: RetryOptions): Send {
  const request = (path: string, headers: Record<string, string>, body: string | URLSearchParams): Promise<Reply> =>
    withRetries(
      () =>
        exchange(target.url + path, {
          headers: { [target.versionHeader]: '1', ...headers },
          body,
          signal: AbortSignal.any([retry.stop, AbortSignal.timeout(REQUEST_MS)]),
        }),
      retry,
    );
  let token: string | undefined;
  const renewToken = async (): Promise<string> => {
    const { clientId: client_id, clientSecret: client_secret } = target;
    const form = { grant_type: 'client_credentials', scope: 'platform', client_id, client_secret };
    const reply = await request('/token', {}, new URLSearchParams(form));
    if (reply.status !== 200) throw refused(`No token for the client ${client_id}`, reply, CREDENTIALS_ADVICE);
    const { access_token: created } = objectIn(reply.text);
    if (typeof created !== 'string') throw noHalcyon(target.url);
    token = created;
    return created;
  };
  const post = async (body: string): Promise<Reply> => {
    const headers = { Authorization: `Bearer ${token ?? (await renewToken())}`, 'Content-Type': 'application/json' };
    return request(`/stores/${target.storeId}/events`, headers, body);
  };
  return async (entries) => {
    const body = `[${entries.map(({ text }) => text).join(',')}]`;
    let reply = await post(body);
    if (reply.status === 401) {
      // The token has expired or was revoked.
      token = undefined;
      reply = await post(body);
    }
    if (reply.status === 200) {
      if (countIn(reply.text) !== entries.length) throw noHalcyon(target.url);
      return undefined;
    }
    if (EVENT_FAULTS.has(reply.status)) return faultsOf(reply.text);
    throw refused(`Nothing can be published to store ${target.storeId}`, reply);
  };
}
