/** Every error row of the contract's section 7, literally. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rejections } from '#identity/oauth/oauth-errors.ts';
import { createBrowser, ISSUER, readForm, REDIRECT, startAuthorizationServer } from '../security/oauth-server.ts';

const server = await startAuthorizationServer();
const { asking, token, client, other, platform } = server;
// Without a session: an error page needs no sign-in, a redirect does (authorize-signed-out.test.ts).
const stranger = createBrowser(server.origin);

const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM';
const addressOf = (changes: Record<string, string | undefined>, more = ''): string =>
  `/authorize?${new URLSearchParams(asking(changes)).toString()}${more}`;

// oxfmt-ignore
const pages: [what: string, address: string, error: string, text: string][] = [
  ['no client_id',           addressOf({ client_id: undefined }),                     'invalid_client',        'No client id supplied'],
  ['an empty client_id',     addressOf({ client_id: '' }),                            'invalid_client',        'No client id supplied'],
  ['an unknown client_id',   addressOf({ client_id: 'unknown' }),                    'invalid_client',        'The client id supplied is invalid'],
  ['an impossible client_id', addressOf({ client_id: '\0' }),                         'invalid_client',        'The client id supplied is invalid'],
  ['another redirect_uri',   addressOf({ redirect_uri: 'https://evil.example/cb' }),  'redirect_uri_mismatch', 'not one that is registered'],
  ['no redirect_uri of two', addressOf({ client_id: other.client_id, redirect_uri: undefined }), 'redirect_uri_mismatch', 'not one that is registered'],
  ['no redirect_uri of none', addressOf({ client_id: platform.client_id, redirect_uri: undefined }), 'redirect_uri_mismatch', 'not one that is registered'],
  ['client_id twice',        addressOf({}, `&client_id=${client.client_id}`),         'invalid_request',       'A parameter is given more than once'],
  ['redirect_uri twice',     addressOf({}, '&redirect_uri=https://evil.example/'),    'invalid_request',       'A parameter is given more than once'],
];
for (const [what, address, error, text] of pages) {
  test(`/authorize with ${what} is a 400 page and no redirect`, async () => {
    const page = await stranger.open(address);
    assert.equal(page.status, 400);
    assert.equal(page.location, null);
    assert.ok(page.text.includes(`<code>${error}</code>`));
    assert.ok(page.text.includes(text));
    assert.doesNotMatch(page.text, /href="[^"]*evil/);
  });
}

// oxfmt-ignore
const redirects: [what: string, address: string, error: string, description: string, state: string | null][] = [
  ['no response_type',     addressOf({ response_type: undefined }), 'invalid_request', 'Invalid or missing response type', 'a state'],
  ['response_type token',  addressOf({ response_type: 'token' }),   'invalid_request', 'Invalid or missing response type', 'a state'],
  ['no scope',             addressOf({ scope: undefined }),         'invalid_client',  'This application requires you specify a scope parameter', 'a state'],
  ['a blank scope',        addressOf({ scope: ' ' }),               'invalid_client',  'This application requires you specify a scope parameter', 'a state'],
  ['an unknown scope',     addressOf({ scope: 'everything' }),      'invalid_scope',   'An unsupported scope was requested', 'a state'],
  ['the scope platform',   addressOf({ scope: 'platform' }),        'invalid_scope',   'An unsupported scope was requested', 'a state'],
  ['no state',             addressOf({ state: undefined }),         'invalid_request', 'The state parameter is required', null],
  ['an empty state',       addressOf({ state: '' }),                'invalid_request', 'The state parameter is required', null],
  ['state twice',          addressOf({}, '&state=b'),               'invalid_request', 'A parameter is given more than once', null],
  ['scope twice',          addressOf({}, '&scope=user_full_access'), 'invalid_request', 'A parameter is given more than once', 'a state'],
  ['a state not in UTF-8', addressOf({ state: undefined }, '&state=%ff'), 'invalid_request', rejections.unreadableState.description, null],
  ...['fragment', 'form_post', 'query.jwt', 'Query', 'x'].map((response_mode): (typeof redirects)[number] => [
    `response_mode ${response_mode}`, addressOf({ response_mode }), 'invalid_request', rejections.responseMode.description, 'a state',
  ]),
  ['response_mode twice',  addressOf({ response_mode: 'query' }, '&response_mode=query'), 'invalid_request', 'A parameter is given more than once', 'a state'],
  ['a plain challenge',    addressOf({ code_challenge: CHALLENGE, code_challenge_method: 'plain' }), 'invalid_request', rejections.challenge.description, 'a state'],
  ['a challenge without method', addressOf({ code_challenge: CHALLENGE }), 'invalid_request', rejections.challenge.description, 'a state'],
  ['a malformed challenge', addressOf({ code_challenge: 'short', code_challenge_method: 'S256' }), 'invalid_request', rejections.challenge.description, 'a state'],
  ['another resource',     addressOf({}, '&resource=https://other.example'), 'invalid_target', rejections.invalidTarget.description, 'a state'],
  ['another resource too', addressOf({ resource: ISSUER }, '&resource=https://other.example'), 'invalid_target', rejections.invalidTarget.description, 'a state'],
];
for (const [what, address, error, description, state] of redirects) {
  test(`/authorize with ${what} redirects to the client with the error`, async () => {
    const { status, location } = await server.browser.open(address);
    assert.equal(status, 303);
    assert.ok(location !== null && location.startsWith(`${REDIRECT}&`));
    assert.deepEqual(Object.fromEntries(new URL(location).searchParams), {
      keep: '1',
      error,
      error_description: description,
      error_message: description,
      ...(state === null ? {} : { state }),
      iss: ISSUER,
    });
  });
}

test('the checks run in the order of the contract', async () => {
  const wrong = { response_type: 'x', scope: undefined, state: undefined };
  const mended = [{}, { response_type: 'code' }, { response_type: 'code', scope: 'x' }];
  const stateless = { response_type: 'code', scope: 'user_full_access', code_challenge: 'x' };
  const answers = await Promise.all(
    [...mended, stateless].map((some) => server.browser.open(addressOf({ ...wrong, ...some }))),
  );
  assert.deepEqual(
    answers.map(({ location }) => new URL(location ?? '').searchParams.get('error_description')),
    [
      'Invalid or missing response type',
      'This application requires you specify a scope parameter',
      'An unsupported scope was requested',
      'The state parameter is required',
    ],
  );
});

test('a denial redirects to the client with access_denied', async () => {
  const { status, location } = await server.browser.consent(asking(), { decision: 'deny' });
  assert.equal(status, 303);
  assert.deepEqual(Object.fromEntries(new URL(location ?? '').searchParams), {
    keep: '1',
    error: 'access_denied',
    error_description: 'The user denied access to your application',
    error_message: 'The user denied access to your application',
    state: 'a state',
    iss: ISSUER,
  });
});

test('POST repeats the checks of GET', async () => {
  const { nonce } = readForm(await server.browser.open(addressOf({})));
  const form = { nonce, decision: 'allow', store: String(server.alpha) };
  for (const [, address] of pages) assert.equal((await server.browser.post(address, form)).status, 400);
  for (const [what, address, error] of redirects) {
    const { location } = await server.browser.post(address, form);
    assert.equal(new URL(location ?? '').searchParams.get('error'), error, what);
  }
});

test('unknown parameters are ignored, also repeated ones', async () => {
  assert.equal((await server.browser.open(addressOf({ response_mode: 'query' }, '&prompt=none&x=1&x=2'))).status, 200);
});

test('the base URL is accepted as the resource at every step, with a slash and repeated', async () => {
  const { location } = await server.browser.consent(
    new URLSearchParams([...Object.entries(asking()), ['resource', ISSUER], ['resource', `${ISSUER}/`]]),
  );
  const first = await token({
    grant_type: 'authorization_code',
    code: new URL(location ?? '').searchParams.get('code') ?? '',
    redirect_uri: REDIRECT,
    resource: `${ISSUER}/`,
    ...client,
  });
  assert.equal(first.status, 200);
  const refresh = { grant_type: 'refresh_token', refresh_token: String(first.body['refresh_token']), ...client };
  assert.equal((await token({ ...refresh, resource: ISSUER })).status, 200);
  assert.equal((await token({ ...refresh, resource: '' })).status, 200);
  assert.equal((await token({ grant_type: 'client_credentials', ...platform, resource: ISSUER })).status, 200);
});

const basicOf = (text: string) => ({ Authorization: `Basic ${Buffer.from(text).toString('base64')}` });
const good = basicOf(`${client.client_id}:${client.client_secret}`);
const code = { grant_type: 'authorization_code', redirect_uri: REDIRECT };
const form = new URLSearchParams({ ...code, code: 'x', ...client }).toString();

// oxfmt-ignore
const tokenRows: [what: string, form: Record<string, string> | string, headers: Record<string, string>, status: number, error: string][] = [
  ['no credentials',             code,                                         {},                               401, 'invalid_client'],
  ['an unknown client',          { ...code, ...client, client_id: 'unknown' },  {},                               401, 'invalid_client'],
  ['a wrong secret',             { ...code, ...client, client_secret: 'x' },   {},                               401, 'invalid_client'],
  ['a wrong secret by Basic',    code,                                         basicOf(`${client.client_id}:x`), 401, 'invalid_client'],
  ['another client\'s secret',   { ...code, ...client, client_secret: other.client_secret }, {},                 401, 'invalid_client'],
  ['a broken Basic header',      code,                                         { Authorization: 'Basic %%%' },   401, 'invalid_client'],
  ['a broken escape in Basic',   code,                                         basicOf('%zz:%zz'),               401, 'invalid_client'],
  ['another scheme',             code,                                         { Authorization: 'Bearer x' },    401, 'invalid_client'],
  ['both secrets',               { ...code, ...client },                       good,                             400, 'invalid_request'],
  ['two client_ids',             { ...code, client_id: other.client_id },      good,                             400, 'invalid_request'],
  ['no grant_type',              { ...client },                                {},                               400, 'invalid_request'],
  ['an unknown grant_type',      { ...client, grant_type: 'password' },        {},                               400, 'unsupported_grant_type'],
  ['an inherited grant_type',    { ...client, grant_type: 'constructor' },     {},                               400, 'unsupported_grant_type'],
  ['another resource',           { ...client, grant_type: 'refresh_token', resource: 'https://other.example' }, {}, 400, 'invalid_target'],
  ['a resource below this one',  { ...code, ...client, resource: `${ISSUER}/stores` }, {},                        400, 'invalid_target'],
  ['another resource too',       `${form}&resource=${ISSUER}&resource=x`,      {},                               400, 'invalid_target'],
  ['no code',                    { ...code, ...client },                       {},                               400, 'invalid_request'],
  ['an unknown code',            form,                                         {},                               400, 'invalid_grant'],
  ['no refresh_token',           { ...client, grant_type: 'refresh_token' },   {},                               400, 'invalid_request'],
  ['an unknown refresh_token',   { ...client, grant_type: 'refresh_token', refresh_token: `hal_rt_${'a'.repeat(43)}` }, {}, 400, 'invalid_grant'],
  ['a parameter twice',          `${form}&code=y`,                             {},                               400, 'invalid_request'],
  ['another content type',       form,                                         { 'Content-Type': 'text/plain' }, 400, 'invalid_request'],
  ['JSON',                       JSON.stringify(code),                         { 'Content-Type': 'application/json' }, 400, 'invalid_request'],
];
for (const [what, sent, headers, status, error] of tokenRows) {
  test(`/token with ${what} is ${error}`, async () => {
    const answer = await token(sent, headers);
    assert.deepEqual([answer.status, answer.body['error']], [status, error]);
    assert.deepEqual(Object.keys(answer.body), ['error', 'error_description']);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.equal(answer.headers.get('www-authenticate')?.startsWith('Basic '), status === 401 ? true : undefined);
  });
}

test('an unknown client and a wrong secret get the same answer, byte for byte', async () => {
  const [unknown, wrong] = [basicOf('unknown:x'), basicOf(`${client.client_id}:x`)];
  assert.deepEqual((await token(code, unknown)).body, (await token(code, wrong)).body);
});

test('a NUL character or broken UTF-8 in the form is a 400', async () => {
  assert.equal((await token(`${form}%00`)).status, 400);
  assert.equal((await token(`${form}%ff`)).status, 400);
});
