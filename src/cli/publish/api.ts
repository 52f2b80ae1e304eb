/** The two requests of this command: a token of the platform's, and events. */
import { UserError } from '../explain.ts';
import type { Entry } from './batches.ts';
import type { PublishTarget } from './target.ts';
import { objectIn } from '../session/exchange.ts';
import { withRetries, type RetryOptions, type Reply } from './retry.ts';

/** What is wrong with events that were refused; `at` is the place in the array where the server names one. */
export type Fault = { at: number | undefined; message: string };

/** Undefined when all of them are published. Whatever says nothing about the events is thrown as a `UserError`. */
export type Send = (entries: readonly Entry[]) => Promise<readonly Fault[] | undefined>;

const REQUEST_MS = 90_000;

/** These are about what was sent: others would be refused in the same way. */
const ABOUT_EVENTS: ReadonlySet<number> = new Set([400, 409, 413, 422]);

/** Of a page that somebody else answers with. */
const SAID_CHARACTERS = 200;

type Errors = {
  error?: string;
  error_description?: string;
  _embedded?: Record<string, ({ message?: string; field?: string } | null)[]>;
};

const faultsOf = (text: string): Fault[] => {
  const { error, error_description: description, _embedded: embedded } = objectIn(text) as Errors;
  const errors = Object.values(embedded ?? {}).flat();
  const said = text.replaceAll(/\s+/g, ' ').slice(0, SAID_CHARACTERS);
  if (errors.length === 0) return [{ at: undefined, message: description ?? error ?? (said || 'no reason') }];
  return errors.map((one) => {
    const { message = '', field = '' } = one ?? {};
    const [, at, member] = /^([0-9]+)(?:\.(.+))?$/.exec(field) ?? [];
    if (at === undefined) return { at: undefined, message };
    const words = message.replace(field, member ?? 'event');
    return { at: Number(at), message: member === undefined || words.includes(member) ? words : `${member}: ${words}` };
  });
};

/** A page of whoever stands before it, or of somebody else altogether. */
const noHalcyon = (url: string): UserError =>
  new UserError(`What answers at ${url} is no Halcyon: check --url (or HALCYON_URL)`);

const WHO =
  '. See --url, --client-id and its secret; where they are left out, HALCYON_DATA has to be the folder of the demo that runs';

/** How many events an answer tells of. */
const countIn = (text: string): number => Object.values(objectIn(text)['_embedded'] ?? {}).flat().length;

const refused = (what: string, { status, text }: Reply, advice = ''): UserError => {
  const [fault] = faultsOf(text);
  return new UserError(`${what}: the server answers ${status}: ${fault?.message ?? ''}${advice}`);
};

/** One request with its whole answer. */
const exchange = async (url: string, init: RequestInit): Promise<Reply> => {
  // A redirect would turn the POST into a GET.
  const response = await fetch(url, { ...init, method: 'POST', redirect: 'manual' });
  return { status: response.status, retryAfter: response.headers.get('Retry-After'), text: await response.text() };
};

export const createSend = (place: PublishTarget, patience: RetryOptions): Send => {
  const ask = (path: string, headers: Record<string, string>, body: string | URLSearchParams): Promise<Reply> =>
    withRetries(
      () =>
        exchange(place.url + path, {
          headers: { [place.versionHeader]: '1', ...headers },
          body,
          signal: AbortSignal.any([patience.stop, AbortSignal.timeout(REQUEST_MS)]),
        }),
      patience,
    );
  let token: string | undefined;
  const renewToken = async (): Promise<string> => {
    const { clientId: client_id, clientSecret: client_secret } = place;
    const form = { grant_type: 'client_credentials', scope: 'platform', client_id, client_secret };
    const reply = await ask('/token', {}, new URLSearchParams(form));
    if (reply.status !== 200) throw refused(`No token for the client ${client_id}`, reply, WHO);
    const { access_token: made } = objectIn(reply.text);
    if (typeof made !== 'string') throw noHalcyon(place.url);
    token = made;
    return made;
  };
  const post = async (body: string): Promise<Reply> => {
    const headers = { Authorization: `Bearer ${token ?? (await renewToken())}`, 'Content-Type': 'application/json' };
    return ask(`/stores/${place.storeId}/events`, headers, body);
  };
  return async (entries) => {
    const body = `[${entries.map(({ text }) => text).join(',')}]`;
    let reply = await post(body);
    if (reply.status === 401) {
      // It has run out, or somebody has revoked it: with the secret there is another.
      token = undefined;
      reply = await post(body);
    }
    if (reply.status === 200) {
      if (countIn(reply.text) !== entries.length) throw noHalcyon(place.url);
      return undefined;
    }
    if (ABOUT_EVENTS.has(reply.status)) return faultsOf(reply.text);
    throw refused(`Nothing can be published to store ${place.storeId}`, reply);
  };
};
