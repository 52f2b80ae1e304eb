/** The API as whoever is logged in: with an access token that is renewed where it has run out. */
import { systemClock } from '#core/clock.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { openCredentials, type Credentials, type Login } from './credentials.ts';
import {
  exchange,
  isTemporary,
  linkOf,
  reasonOf,
  send,
  unreachable,
  type JsonResponse,
  type RequestOptions,
  type Json,
} from './exchange.ts';
import { serverOf, versionHeaders, type ServerOptions } from './server.ts';
import { refresh } from './tokens.ts';

type ApiRequest = Omit<RequestOptions, 'body'> & { body?: object };

export type Api = {
  server: string;
  /** Its answer, whatever it says. Throws a `UserError`: unreachable where nobody answers, or where the login is over. */
  ask: (address: string, question?: ApiRequest) => Promise<JsonResponse>;
  /** The same of what is held open: the body is the caller's to read. */
  open: (address: string, question?: ApiRequest) => Promise<Response>;
  /** A document; throws a `UserError` that says what the server says, and is unreachable where another time may go well. */
  read: (address: string, question?: ApiRequest) => Promise<Json>;
  /** The store that the person has chosen. */
  store: () => Promise<Json>;
  login: () => Promise<Login>;
};

const notLoggedIn = (server: string): UserError =>
  new UserError(`You are not logged in at ${server}: run halcyon login --server ${server}`);

/** What was renewed meanwhile by another command counts; `spent` is the access token that was refused. */
const renew = async (credentials: Credentials, server: string, spent: string): Promise<Login> => {
  let login: Login | undefined;
  await credentials.change(server, async (kept) => {
    login = kept === undefined || kept.access_token !== spent ? kept : await refresh(kept, systemClock.now());
    return login;
  });
  if (login === undefined) throw notLoggedIn(server);
  return login;
};

/** Throws a `UserError` where a document does not lead there. */
export const follow = (document: Json, rel: string, server: string): string => {
  const address = linkOf(document, rel);
  if (address !== undefined) return address;
  throw new UserError(`This Halcyon has no ${rel}: ${server} may be of an older version than this command`);
};

export const openApi = async (options: ServerOptions, terminal: Terminal): Promise<Api> => {
  const credentials = openCredentials(terminal);
  const server = serverOf(options, terminal, Object.keys(await credentials.read()));
  const { origin } = new URL(server);
  const login = async (): Promise<Login> => {
    const { [server]: kept } = await credentials.read();
    if (kept === undefined) throw notLoggedIn(server);
    return kept;
  };
  const authorized = async <Answer extends { status: number }>(
    address: string,
    { body, ...rest }: ApiRequest,
    run: (asked: RequestOptions) => Promise<Answer>,
  ): Promise<Answer> => {
    // A link that leads away would take the token there.
    if (new URL(address).origin !== origin)
      throw new UserError(
        `${server} leads to another server: its BASE_URL is ${new URL(address).origin}. Use that one with --server`,
      );
    const asked = (accessToken: string): RequestOptions => ({
      ...rest,
      headers: {
        ...versionHeaders(terminal),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...rest.headers,
        Authorization: `Bearer ${accessToken}`,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { access_token: first } = await login();
    const answered = await run(asked(first));
    if (answered.status !== 401) return answered;
    const { access_token: second } = await renew(credentials, server, first);
    return run(asked(second));
  };
  const ask: Api['ask'] = (address, question = {}) =>
    authorized(address, question, (asked) => exchange(address, asked));
  const read: Api['read'] = async (address, question) => {
    const answered = await ask(address, question);
    if (answered.status >= 200 && answered.status < 300) return answered.json;
    if (isTemporary(answered.status)) throw unreachable(address, reasonOf(answered));
    throw new UserError(reasonOf(answered));
  };
  return {
    server,
    login,
    ask,
    read,
    open: (address, question = {}) => authorized(address, question, (asked) => send(address, asked)),
    store: async () => read(follow(await read(server), 'store', server)),
  };
};
