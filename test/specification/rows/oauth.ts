/** "Authorization", "Token", "Errors" and "Limits" of the OAuth flow. */
import assert from 'node:assert/strict';
import { REDIRECT } from '../../security/oauth-server.ts';
import type { Row, World } from '../row.ts';

type Server = World['server'];

const basic = ({ client_id: id, client_secret: secret }: Server['client']) => ({
  Authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
});

function sentTo({ location }: { location: string | null }) {
  const url = new URL(location ?? '');
  return { to: url.origin + url.pathname, said: Object.fromEntries(url.searchParams) };
}

const asked = (server: Server, changes: Record<string, string | undefined>) =>
  server.browser.open(`/authorize?${new URLSearchParams(server.asking(changes)).toString()}`);

/** The errors reported by redirect: the invalid parameters, and the exact codes. */
const redirected: [row: string, changes: Record<string, string | undefined>, error: string, message: string][] = [
  [
    'invalid_client: This application requires you specify a scope parameter',
    { scope: undefined },
    'invalid_client',
    'This application requires you specify a scope parameter',
  ],
  [
    'invalid_request: Invalid or missing response type: missing',
    { response_type: undefined },
    'invalid_request',
    'Invalid or missing response type',
  ],
  [
    'invalid_request: Invalid or missing response type: invalid',
    { response_type: 'token' },
    'invalid_request',
    'Invalid or missing response type',
  ],
  [
    'invalid_request: The state parameter is required',
    { state: undefined },
    'invalid_request',
    'The state parameter is required',
  ],
  [
    'invalid_scope: An unsupported scope was requested',
    { scope: 'everything' },
    'invalid_scope',
    'An unsupported scope was requested',
  ],
];

const errors: Row[] = redirected.map(([row, changes, error, message]) => ({
  row: `Errors: ${row}`,
  holds: async ({ server }) => {
    const { said } = sentTo(await asked(server, changes));
    assert.deepEqual([said['error'], said['error_description'], said['error_message']], [error, message, message]);
    assert.equal(said['state'], 'state' in changes ? undefined : 'a state');
  },
}));

const pages: Row[] = [
  ['invalid_client: No client id supplied', { client_id: undefined }, 'No client id supplied'] as const,
  [
    'invalid_client: The client id supplied is invalid',
    { client_id: 'unknown' },
    'The client id supplied is invalid',
  ] as const,
].map(([row, changes, message]) => ({
  row: `Errors: ${row}`,
  holds: async ({ server }) => {
    const { status, location, text } = await asked(server, changes);
    assert.deepEqual([status, location], [400, null]);
    assert.ok(text.includes(message));
  },
}));

const answerFields: Row[] = (
  [
    ['access_token: string, bearer token for API calls', 'access_token', /^hal_at_/],
    ['refresh_token: string, used to obtain a new access token', 'refresh_token', /^hal_rt_/],
    ['expires_in: integer, 7200', 'expires_in', /^7200$/],
    ['token_type: Bearer', 'token_type', /^Bearer$/],
    ['scope: the requested scope plus store_id_<store_id>', 'scope', /^store_full_access store_id_\d+$/],
  ] as const
).map(([row, name, pattern]) => ({
  row: `Token response: ${row}`,
  holds: async ({ redeemed }) => {
    assert.equal(redeemed.status, 200);
    assert.match(String(redeemed.body[name]), pattern);
    assert.equal(typeof redeemed.body[name], name === 'expires_in' ? 'number' : 'string');
  },
}));

const exchange: Row[] = [
  {
    row: 'Token: client_id and client_secret only when Basic authentication is not used: Basic',
    holds: async ({ server }) => {
      const code = await server.newCode();
      const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT };
      assert.equal((await server.token(form, basic(server.client))).status, 200);
    },
  },
  {
    row: 'Token: client_id and client_secret as body fields',
    holds: async ({ server }) => assert.equal((await server.redeem(await server.newCode())).status, 200),
  },
  ...(['grant_type', 'code', 'redirect_uri'] as const).map((name): Row => ({
    row: `Token: ${name}: required`,
    holds: async ({ server }) => {
      const form: Record<string, string> = {
        grant_type: 'authorization_code',
        code: await server.newCode(),
        redirect_uri: REDIRECT,
      };
      delete form[name];
      const { status, body } = await server.token(form, basic(server.client));
      assert.deepEqual([status, body['error']], [400, 'invalid_request']);
    },
  })),
  {
    row: 'Token: redirect_uri: exactly equal to the one set when the client was created',
    holds: async ({ server }) => {
      const { body } = await server.redeem(await server.newCode(), { redirect_uri: `${REDIRECT}/` });
      assert.equal(body['error'], 'invalid_grant');
    },
  },
  {
    row: 'Token: body encoded as application/x-www-form-urlencoded',
    holds: async ({ server }) => {
      const type = { 'Content-Type': 'application/json', ...basic(server.client) };
      assert.equal((await server.token('{"grant_type":"authorization_code"}', type)).status, 400);
    },
  },
  {
    row: 'Refresh exchange: grant_type, refresh_token, client_id, client_secret: a new access_token',
    holds: async ({ server, redeemed }) => {
      const refresh_token = String(redeemed.body['refresh_token']);
      const { status, body } = await server.token({ grant_type: 'refresh_token', refresh_token, ...server.client });
      assert.equal(status, 200);
      assert.notEqual(body['access_token'], redeemed.body['access_token']);
    },
  },
];

const lifetimes: Row[] = [
  {
    row: 'Authorization code: can be used once',
    holds: async ({ server }) => {
      const code = await server.newCode();
      assert.equal((await server.redeem(code)).status, 200);
      assert.equal((await server.redeem(code)).body['error'], 'invalid_grant');
    },
  },
  {
    row: 'Authorization code: valid for 30 seconds',
    holds: async ({ server }) => {
      const codes = [await server.newCode(), await server.newCode()] as const;
      server.wait(29_000);
      assert.equal((await server.redeem(codes[0])).status, 200);
      server.wait(2_000);
      assert.equal((await server.redeem(codes[1])).body['error'], 'invalid_grant');
    },
  },
  {
    row: 'Access token lifetime: 2 hours (7200 seconds)',
    holds: async ({ server }) => {
      const { body } = await server.redeem(await server.newCode());
      const token = String(body['access_token']);
      server.wait(7_199_000);
      assert.equal((await server.read(server.alpha, token)).status, 200);
      server.wait(1_000);
      const { status } = await server.read(server.alpha, token);
      assert.equal(status, 401);
    },
  },
];

export const oauth: Row[] = [
  {
    row: 'Authorization: on approval redirected to the registered redirect_uri with code and state',
    holds: async ({ server }) => {
      const { to, said } = sentTo(await server.browser.consent(server.asking()));
      assert.equal(to, new URL(REDIRECT).origin + new URL(REDIRECT).pathname);
      assert.match(said['code'] ?? '', /^hal_ac_/);
      assert.equal(said['state'], 'a state');
    },
  },
  {
    row: 'Errors: access_denied: The user denied access to your application',
    holds: async ({ server }) => {
      const { said } = sentTo(await server.browser.consent(server.asking(), { decision: 'deny' }));
      const message = 'The user denied access to your application';
      assert.deepEqual(
        [said['error'], said['error_description'], said['error_message'], said['state']],
        ['access_denied', message, message, 'a state'],
      );
    },
  },
  {
    row: 'Scopes: user_full_access (access to the user account)',
    holds: async ({ server }) => {
      const { body } = await server.redeem(await server.newCode({ scope: 'user_full_access' }));
      assert.equal(body['scope'], 'user_full_access');
    },
  },
  ...errors,
  ...pages,
  ...answerFields,
  ...exchange,
  ...lifetimes,
];
