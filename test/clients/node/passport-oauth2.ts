/** passport 0.7 with passport-oauth2 1, on plain node:http. Passport's part ends with the tokens. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
// docs
import passport from 'passport';
import OAuth2Strategy from 'passport-oauth2';
// end
import { call, type Walk } from '../oauth-flow.ts';

type Tokens = { accessToken: string; refreshToken: string };
/** The properties that Express and its session would add to a request. */
type Request = IncomingMessage & { query?: object; session?: object; user?: Tokens };
type Middleware = (request: Request, response: ServerResponse, next: (error?: unknown) => void) => void;

/** One person's session is enough here. */
async function serve(authenticate: Middleware) {
  const session = {};
  const server = createServer((incoming, response) => {
    const { searchParams } = new URL(incoming.url ?? '', 'http://localhost');
    const request: Request = Object.assign(incoming, { query: Object.fromEntries(searchParams), session });
    authenticate(request, response, (error) =>
      response.writeHead(error === undefined ? 200 : 500).end(JSON.stringify(request.user ?? String(error))),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, close: () => void server.close() };
}

export const walk: Walk = async ({ issuer, clientId, clientSecret, redirectUri, visit, store }) => {
  // docs
  const strategy = new OAuth2Strategy(
    {
      authorizationURL: `${issuer}/authorize`,
      tokenURL: `${issuer}/token`,
      clientID: clientId,
      clientSecret,
      callbackURL: redirectUri,
      scope: 'store_full_access',
      state: true,
      pkce: true,
    },
    (accessToken: string, refreshToken: string, _profile: unknown, done: OAuth2Strategy.VerifyCallback) =>
      done(null, { accessToken, refreshToken }),
  );
  passport.use(strategy);
  const authenticate = passport.authenticate('oauth2', { session: false });
  // end
  const app = await serve(authenticate as Middleware);
  const login = await fetch(`${app.origin}/login`, { redirect: 'manual' });
  const back = await visit(login.headers.get('location') ?? '');
  const arrived = await fetch(app.origin + back.pathname + back.search);
  if (arrived.status !== 200) throw new Error(`Passport refused: ${arrived.status} ${await arrived.text()}`);
  const { accessToken, refreshToken } = (await arrived.json()) as Tokens;
  app.close();
  const first = await call(store, accessToken);
  const renewed = await refresh(strategy, refreshToken);
  const second = await call(store, renewed.accessToken);
  const form = { client_id: clientId, client_secret: clientSecret, token: renewed.refreshToken };
  await fetch(`${issuer}/revoke`, { method: 'POST', body: new URLSearchParams(form) });
  const third = await call(store, renewed.accessToken);
  return {
    statuses: [first.status, second.status, third.status],
    refreshTokens: [refreshToken, renewed.refreshToken],
  };
};

type GotTokens = (error: unknown, accessToken: string, refreshToken: string) => void;
/** The client of a strategy (from the package `oauth`), with which users of Passport refresh. */
type Underneath = { _oauth2: { getOAuthAccessToken: (code: string, form: object, got: GotTokens) => void } };

const refresh = (strategy: OAuth2Strategy, token: string): Promise<Tokens> =>
  new Promise((resolve, reject) => {
    const { _oauth2: oauth2 } = strategy as unknown as Underneath;
    // docs
    oauth2.getOAuthAccessToken(token, { grant_type: 'refresh_token' }, (error, accessToken, refreshToken) => {
      if (error) reject(new Error('The refresh token is refused', { cause: error }));
      else resolve({ accessToken, refreshToken });
    });
    // end
  });
