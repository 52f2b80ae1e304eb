/** Where /authorize sends people: octet for octet where the client said it would be, with what it sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#oauth/clients/clients.ts';
import { createBrowser, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { asking, browser } = server;
const REGISTERED = 'https://app.example.com/cb?keep=1';

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

test('the address itself is taken', async () => {
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

test('a long state survives the way through sign-in', async () => {
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

test('registration refuses addresses that could not be trusted', async () => {
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
