/** Redirects of /authorize: to exactly the registered address, with the state as it was sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createBrowser, readForm, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { asking, browser } = server;
const REGISTERED = 'https://app.example.com/cb?keep=1';

const LOOPBACK = 'http://127.0.0.1:8000/cb?keep=1';
const native = { redirectUris: [LOOPBACK, 'http://localhost:8000/cb'], trusted: false, now: new Date() };
const { client_id: nativeId } = await createClient(server.sql, { isPublic: true, ...native, name: 'Native' });
const { client_id: confidentialId } = await createClient(server.sql, { ...native, name: 'Confidential' });

const lookAlikes = [
  'https://app.example.com/cb',
  'https://app.example.com/cb?keep=1&x=2',
  'https://app.example.com/cb?keep=1&',
  'https://app.example.com/cb?keep=1#',
  'https://app.example.com/cb?keep=1#x',
  'https://app.example.com/cb/?keep=1',
  'https://app.example.com/cb/x?keep=1',
  'https://app.example.com/cb;/?keep=1',
  'https://app.example.com/..;/cb?keep=1',
  'https://app.example.com/x/../cb?keep=1',
  'https://app.example.com/./cb?keep=1',
  'https://app.example.com//cb?keep=1',
  'https://app.example.com/%63b?keep=1',
  'https://app.example.com/cb?keep=%31',
  'https://app.example.com/cb%3Fkeep=1',
  'https://app.example.com:443/cb?keep=1',
  'https://app.example.com./cb?keep=1',
  'https://APP.example.com/cb?keep=1',
  'HTTPS://app.example.com/cb?keep=1',
  'http://app.example.com/cb?keep=1',
  'https://app.example.com.evil.example/cb?keep=1',
  'https://evil.example/cb?keep=1',
  'https://evil.example/https://app.example.com/cb?keep=1',
  'https://user@app.example.com/cb?keep=1',
  'https://app.example.com@evil.example/cb?keep=1',
  'https://app.example.com@@evil.example/cb?keep=1',
  'https://evil.example\\@app.example.com/cb?keep=1',
  'https:\\\\app.example.com\\cb?keep=1',
  'https://app.example.com\\cb?keep=1',
  '//app.example.com/cb?keep=1',
  ' https://app.example.com/cb?keep=1',
  'https://app.example.com/cb?keep=1 ',
  'https://app.example.com/cb?keep=1\t',
  'https://app.example.com/\tcb?keep=1',
  'https://app.example.com/cb?keep=1\n',
  'https://app.example.com/cb?keep=1\0',
  'https://аpp.example.com/cb?keep=1',
  'https://app。example.com/cb?keep=1',
  'https://xn--pp-7kc.example.com/cb?keep=1',
  'javascript:alert(1)//https://app.example.com/cb?keep=1',
];

test('the registered address itself is accepted', async () => {
  assert.equal((await browser.open(`/authorize?${new URLSearchParams(asking()).toString()}`)).status, 200);
  assert.equal(asking()['redirect_uri'], REGISTERED);
});

for (const uri of lookAlikes) {
  test(`a look-alike is a 400 page without Location: ${JSON.stringify(uri)}`, async () => {
    const query = new URLSearchParams(asking({ redirect_uri: uri })).toString();
    for (const page of [await browser.open(`/authorize?${query}`), await browser.post(`/authorize?${query}`, {})]) {
      assert.equal(page.status, 400);
      assert.equal(page.location, null);
      assert.match(page.text, /redirect_uri_mismatch/);
    }
  });
}

const loopbackLookAlikes = [
  'http://127.0.0.1:9000/cb',
  'http://127.0.0.1:9000/cb?keep=1&x=2',
  'http://127.0.0.1:9000/cb?keep=1#',
  'http://127.0.0.1:9000/cb/?keep=1',
  'http://127.0.0.1:9000/CB?keep=1',
  'http://127.0.0.1:9000/other?keep=1',
  'http://127.0.0.1:9000//cb?keep=1',
  'http://127.0.0.1:9000/..;/cb?keep=1',
  'http://127.0.0.1:9000/%63b?keep=1',
  'http://127.0.0.1:9000\\cb?keep=1',
  'http://127.0.0.1:9000\t/cb?keep=1',
  'http://127.0.0.1:9000\n/cb?keep=1',
  'http://127.0.0.1:9000 /cb?keep=1',
  'https://127.0.0.1:9000/cb?keep=1',
  'HTTP://127.0.0.1:9000/cb?keep=1',
  'http://localhost:9000/cb?keep=1',
  'http://localhost:9000/other',
  'http://localhost:0/cb',
  'http://localhost.:8000/cb',
  'http://localhost.evil.example:8000/cb',
  'http://localhost:8000@evil.example/cb',
  'https://localhost:8000/cb',
  'http://LOCALHOST:8000/cb',
  'http://[::1]:8000/cb?keep=1',
  'http://127.0.0.2:8000/cb?keep=1',
  'http://127.1:8000/cb?keep=1',
  'http://2130706433:8000/cb?keep=1',
  'http://0x7f.0.0.1:8000/cb?keep=1',
  'http://127.0.0.1.:8000/cb?keep=1',
  'http://127.0.0.1.evil.example/cb?keep=1',
  'http://127.0.0.1.evil.example:8000/cb?keep=1',
  'http://127.0.0.1:80@evil.example/cb?keep=1',
  'http://127.0.0.1:80@evil',
  'http://127.0.0.1:8000@evil.example/cb?keep=1',
  'http://127.0.0.1@evil.example:8000/cb?keep=1',
  'http://127.0.0.1@@evil.example/cb?keep=1',
  'http://user@127.0.0.1:8000/cb?keep=1',
  'http://evil.example\\@127.0.0.1:8000/cb?keep=1',
  'http://127.0.0.1:/cb?keep=1',
  'http://127.0.0.1:0/cb?keep=1',
  'http://127.0.0.1:08000/cb?keep=1',
  'http://127.0.0.1:65536/cb?keep=1',
  'http://127.0.0.1:-1/cb?keep=1',
  'http://127.0.0.1:+80/cb?keep=1',
  'http://127.0.0.1:80:80/cb?keep=1',
  'http://127.0.0.1:８０/cb?keep=1',
  'http://127.0.0.1:8000.evil.example/cb?keep=1',
  'http://127.0.0.1%2eevil.example:8000/cb?keep=1',
  'http://127。0。0。1:8000/cb?keep=1',
  '//127.0.0.1:9000/cb?keep=1',
  'http:127.0.0.1:9000/cb?keep=1',
];

for (const uri of loopbackLookAlikes) {
  test(`a look-alike of a public client's loopback address is a 400 page: ${JSON.stringify(uri)}`, async () => {
    const challenge = { code_challenge: 'c'.repeat(43), code_challenge_method: 'S256' };
    const query = new URLSearchParams(asking({ client_id: nativeId, redirect_uri: uri, ...challenge })).toString();
    for (const page of [await browser.open(`/authorize?${query}`), await browser.post(`/authorize?${query}`, {})]) {
      assert.deepEqual([page.status, page.location], [400, null]);
      assert.match(page.text, /redirect_uri_mismatch/);
    }
  });
}

test('the loopback port of a confidential client must match', async () => {
  const at = (redirect_uri: string) =>
    browser.open(`/authorize?${new URLSearchParams(asking({ client_id: confidentialId, redirect_uri })).toString()}`);
  const other = await at(LOOPBACK.replace('8000', '9000'));
  assert.deepEqual([other.status, other.location], [400, null]);
  assert.equal((await at(LOOPBACK)).status, 200);
});

test('state comes back as it was sent, octet for octet', async () => {
  const states = [
    'a+b c%20d',
    '&error=access_denied&code=x',
    '=&?#/\\"\'<>',
    'žluťoučký kůň 🐎',
    'x'.repeat(4_096),
    '🐎'.repeat(512),
    '%00%ff',
    ' ',
    'a \uFFFD that was meant',
    '\uFEFF\u202E\u0301',
  ];
  for (const state of states) {
    for (const decision of ['allow', 'deny']) {
      const { location } = await browser.consent(asking({ state }), { decision });
      const read = new URL(location ?? '').searchParams;
      assert.deepEqual(read.getAll('state'), [state]);
      assert.equal(read.has('code'), decision === 'allow');
      assert.equal(decodeURIComponent(/[?&]state=([^&]*)/.exec(location ?? '')?.[1] ?? ''), state);
    }
  }
});

const queryOf = (raw: string): string => `${new URLSearchParams(asking({ state: undefined })).toString()}&${raw}`;

const brokenStates = ['%ff', '%C3', '%ED%A0%80', '%C0%80', 'a%EF%BF%BD%ff', '%EF%BF', '%00', 'a%00b', '%F5%80%80%80'];

for (const raw of brokenStates) {
  test(`an invalid state is an error and is not sent back: ${raw}`, async () => {
    const { status, location } = await browser.open(`/authorize?${queryOf(`state=${raw}`)}`);
    assert.equal(status, 303);
    const read = new URL(location ?? '').searchParams;
    assert.equal(read.get('error'), 'invalid_request');
    assert.match(read.get('error_description') ?? '', /state.*UTF-8/);
    assert.equal(read.has('state'), false);
  });
}

test('a percent sign that begins no sequence is a literal percent sign', async () => {
  const { action, nonce } = readForm(await browser.open(`/authorize?${queryOf('state=100%&x=%zz')}`));
  const { location } = await browser.post(action, { nonce, decision: 'deny' });
  assert.equal(new URL(location ?? '').searchParams.get('state'), '100%');
});

test('invalid text before the address is trusted is shown on a page', async () => {
  for (const name of ['client_id', 'redirect_uri']) {
    const query = `${new URLSearchParams(asking({ [name]: undefined })).toString()}&${name}=%ff`;
    const { status, location } = await browser.open(`/authorize?${query}`);
    assert.deepEqual([status, location], [400, null]);
  }
});

test('a long state is kept through the sign-in', async () => {
  const stranger = createBrowser(server.origin);
  const state = 'ž'.repeat(1_024);
  const { location } = await stranger.open(`/authorize?${new URLSearchParams(asking({ state })).toString()}`);
  const returnTo = new URL(location ?? '', server.origin).searchParams.get('return_to') ?? '';
  const back = await stranger.post('/sign-in', {
    email: server.ada,
    password: 'correct horse battery',
    return_to: returnTo,
  });
  assert.equal(back.location, returnTo);
  assert.equal(new URL(returnTo, server.origin).searchParams.get('state'), state);
  assert.equal((await stranger.open(returnTo)).status, 200);
});

test('registration rejects addresses that could not be trusted', async () => {
  const details = { name: 'App', trusted: false, now: new Date() };
  const bad = [
    'http://app.example.com/',
    'javascript:alert(1)',
    'data:text/html,x',
    'https://*.example.com/',
    'https://a.example/#x',
  ];
  for (const uri of bad) {
    await assert.rejects(createClient(server.sql, { ...details, redirectUris: [uri] }), {
      name: 'Problem',
      status: 400,
    });
  }
  await assert.rejects(createClient(server.sql, { ...details, redirectUris: [] }), { status: 400 });
  const taken = { ...details, redirectUris: [REGISTERED], clientId: server.client.client_id };
  await assert.rejects(createClient(server.sql, taken), { status: 409 });
});
