/** The ways to create and change a client: the form, the API of the platform, the registration and the command line. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { runCommand } from '../setup/command.ts';
import { urlOf } from '../setup/database.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { credentialsIn, hiddenIn, newApp, preselectedIn, REGISTERED, saveApp } from './page-forms.ts';

const server = await startAuthorizationServer();
const { browser, origin, sql } = server;
const invitation = await createRegistrationToken(sql, { days: 7, now: server.now() });
const { body: granted } = await server.token({
  grant_type: 'client_credentials',
  scope: 'platform',
  ...server.platform,
});
const settings = { DATABASE_URL: urlOf(server.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };

async function sendJson(method: string, path: string, token: unknown, body: object) {
  const headers = {
    'Content-Type': 'application/json',
    'SERVICE-API-VERSION': '1',
    Authorization: `Bearer ${String(token)}`,
  };
  const response = await fetch(origin + path, { method, headers, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const idIn = ({ client_id: id }: Record<string, unknown>): string => (typeof id === 'string' ? id : '');

/** What a way returned: the id of the client, or why there is none. */
type Result = { clientId: string; refusal: string };
type Way = (kind: 'confidential' | 'public', uri: string) => Promise<Result>;

const ACTION = '/account/clients';
const WAYS: Readonly<Record<string, Way>> = {
  'the form, as it is preselected': async (kind, uri) => {
    const form = await browser.open('/account/clients/new');
    const typed = {
      ...hiddenIn(form, ACTION),
      is_public: kind === 'public' ? '1' : '0',
      name: 'By form',
      redirect_uris: uri,
    };
    const preselected = preselectedIn(form, ACTION).filter(([name]) => name !== 'is_public');
    const page = await browser.post(ACTION, [...preselected, ...Object.entries(typed)]);
    return { clientId: credentialsIn(page).clientId, refusal: page.text };
  },
  'POST /clients': async (kind, uri) => {
    const body = { name: 'By platform', redirect_uris: [uri], is_public: kind === 'public' };
    const answer = await sendJson('POST', '/clients', granted['access_token'], body);
    return { clientId: idIn(answer.body), refusal: JSON.stringify(answer.body) };
  },
  'POST /register': async (kind, uri) => {
    const method = kind === 'public' ? 'none' : 'client_secret_basic';
    const body = { client_name: 'Itself', redirect_uris: [uri], token_endpoint_auth_method: method };
    const answer = await sendJson('POST', '/register', invitation, body);
    return { clientId: idIn(answer.body), refusal: JSON.stringify(answer.body) };
  },
  'halcyon client create': async (kind, uri) => {
    const options = ['--redirect-uri', uri, ...(kind === 'public' ? ['--public'] : [])];
    const { code, out, err } = await runCommand(['client', 'create', '--name', 'By operator', ...options], settings);
    const made = code === 0 ? (JSON.parse(out) as { client_id: string }) : undefined;
    return { clientId: made?.client_id ?? '', refusal: err };
  },
};

const challenge = createHash('sha256').update('v'.repeat(43)).digest('base64url');
const PKCE = { code_challenge: challenge, code_challenge_method: 'S256' };

for (const [name, create] of Object.entries(WAYS)) {
  test(`the four parameters of the specification suffice for a client with a secret, and not for one without: ${name}`, async () => {
    for (const kind of ['confidential', 'public'] as const) {
      const { clientId, refusal } = await create(kind, REGISTERED);
      assert.notEqual(clientId, '', refusal);
      const ask = (more = {}) => {
        const request = server.asking({ client_id: clientId, redirect_uri: REGISTERED, ...more });
        return browser.open(`/authorize?${new URLSearchParams(request).toString()}`);
      };
      assert.equal((await ask(PKCE)).status, 200);
      const { status, location } = await ask();
      const error = location === null ? null : new URL(location).searchParams.get('error');
      assert.deepEqual([status, error], kind === 'public' ? [303, 'invalid_request'] : [200, null], kind);
    }
  });
}

/** Returns how each way that sets redirect URIs refuses one: those above, and the changes of an existing client. */
const REFUSALS: Readonly<Record<string, (uri: string) => Promise<string>>> = {
  ...Object.fromEntries(
    Object.entries(WAYS).map(([name, create]) => [
      name,
      async (uri: string) => {
        const { clientId, refusal } = await create('confidential', uri);
        assert.equal(clientId, '');
        return refusal;
      },
    ]),
  ),
  'the page of the app': async (uri) => {
    const { clientId } = await newApp(browser);
    const { status, text } = await saveApp(browser, clientId, { redirect_uris: uri });
    assert.equal(status, 422);
    return text;
  },
  'PUT /register/:client_id': async (uri) => {
    const made = await sendJson('POST', '/register', invitation, { redirect_uris: [REGISTERED] });
    const { client_id, registration_access_token: token } = made.body;
    const path = `/register/${idIn(made.body)}`;
    const { status, body } = await sendJson('PUT', path, token, { client_id, redirect_uris: [REGISTERED, uri] });
    assert.deepEqual([status, body['error']], [400, 'invalid_redirect_uri']);
    return JSON.stringify(body);
  },
};

const ADDED = ['code', 'state', 'iss', 'error', 'error_description', 'error_message'];

for (const [name, refuse] of Object.entries(REFUSALS)) {
  test(`a redirect URI with a parameter of the response is refused: ${name}`, async () => {
    for (const parameter of ADDED) {
      const refusal = await refuse(`${REGISTERED}?keep=1&${parameter}=x`);
      assert.match(refusal, new RegExp(`must not have the parameter ${parameter},`), parameter);
    }
  });
}

test('the server adds no other parameter to a redirect URI', async () => {
  const allowed = await browser.consent(server.asking());
  const denied = await browser.consent(server.asking(), { decision: 'deny' });
  const names = [allowed, denied].flatMap(({ location }) => Array.from(new URL(location ?? '').searchParams.keys()));
  assert.deepEqual(new Set(names), new Set(['keep', ...ADDED]));
});
