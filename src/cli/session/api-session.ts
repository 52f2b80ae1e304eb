/** Calls the API with the login of this terminal, and refreshes an expired access token. */
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
} from './json-request.ts';
import { serverOf, versionHeaders, type ServerOptions } from './api-endpoints.ts';

type ApiRequest = Omit<RequestOptions, 'body'> & { body?: object };

export type Api = {
  server: string;
  /** Returns the response with any status. Throws a `UserError` if the server is unreachable or the login has ended. */
  request: (address: string, request?: ApiRequest) => Promise<JsonResponse>;
  /** Returns the response with an unread body, for streams; throws like `request`. */
  open: (address: string, request?: ApiRequest) => Promise<Response>;
  /** Returns a document; throws a `UserError` with the server's message, which is unreachable for a temporary failure. */
  read: (address: string, request?: ApiRequest) => Promise<Json>;
  /** Returns the store of the login. */
  store: () => Promise<Json>;
  login: () => Promise<Login>;
};

const notLoggedIn = (server: string): UserError =>
  new UserError(`You are not logged in at ${server}: run halcyon login --server ${server}`);

/** Refreshes the login, unless another command has done it already; `rejected` is the access token that was rejected. */
async function renew(credentials: Credentials, server: string, rejected: string): Promise<Login> {
  const { refresh } = await import('./session-tokens.ts');
  let login: Login | undefined;
  await credentials.change(server, async (stored) => {
    login =
      stored === undefined || stored.access_token !== rejected ? stored : await refresh(stored, systemClock.now());
    return login;
  });
  if (login === undefined) throw notLoggedIn(server);
  return login;
}

/** Returns the address of a relation; throws a `UserError` if the document has no such link. */
export function follow(document: Json, rel: string, server: string): string {
  const address = linkOf(document, rel);
  if (address !== undefined) return address;
  throw new UserError(`This server has no ${rel}: ${server} may run an older version than this command`);
}

export async function openApi(options: ServerOptions, terminal: Terminal): Promise<Api> {
  const credentials = openCredentials(terminal);
  const server = serverOf(options, terminal, Object.keys(await credentials.read()));
  const { origin } = new URL(server);
  const login = async (): Promise<Login> => {
    const { [server]: stored } = await credentials.read();
    if (stored === undefined) throw notLoggedIn(server);
    return stored;
  };
  const authorized = async <Result extends { status: number }>(
    address: string,
    { body, ...rest }: ApiRequest,
    run: (options: RequestOptions) => Promise<Result>,
  ): Promise<Result> => {
    const target = URL.parse(address);
    if (target === null) throw new UserError(`${server} links to "${address}", which is no address: check --server`);
    // Prevents that a link to another origin receives the token.
    if (target.origin !== origin)
      throw new UserError(
        `${server} links to another server: its BASE_URL is ${target.origin}. Use that address with --server`,
      );
    const withToken = (accessToken: string): RequestOptions => ({
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
    const response = await run(withToken(first));
    if (response.status !== 401) return response;
    const { access_token: second } = await renew(credentials, server, first);
    return run(withToken(second));
  };
  const request: Api['request'] = (address, apiRequest = {}) =>
    authorized(address, apiRequest, (init) => exchange(address, init));
  const read: Api['read'] = async (address, apiRequest) => {
    const response = await request(address, apiRequest);
    if (response.status >= 200 && response.status < 300) return response.json;
    if (isTemporary(response.status)) throw unreachable(address, reasonOf(response));
    throw new UserError(reasonOf(response));
  };
  return {
    server,
    login,
    request,
    read,
    open: (address, apiRequest = {}) => authorized(address, apiRequest, (init) => send(address, init)),
    store: async () => read(follow(await read(server), 'store', server)),
  };
}
