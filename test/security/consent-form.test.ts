/** The consent form and its session, for a browser and for attackers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createBrowser, ISSUER, readForm, REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { asking, browser, sql, alpha, foreign } = server;
const addressOf = (changes: Record<string, string | undefined> = {}): string =>
  `/authorize?${new URLSearchParams(asking(changes)).toString()}`;

async function countCodes(): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*) from authorization_code`;
  return row?.count ?? NaN;
}

async function assertNoCode(work: () => Promise<void>): Promise<void> {
  const before = await countCodes();
  await work();
  assert.equal(await countCodes(), before);
}

test('a form without the nonce of this session and this request gives no code', async () => {
  const { nonce } = readForm(await browser.open(addressOf()));
  const { nonce: otherState } = readForm(await browser.open(addressOf({ state: 'another' })));
  const { nonce: otherScope } = readForm(await browser.open(addressOf({ scope: 'user_full_access' })));
  const second = createBrowser(server.origin);
  await second.signIn(server.ada);
  const { nonce: otherSession } = readForm(await second.open(addressOf()));
  assert.equal(new Set([nonce, otherState, otherScope, otherSession]).size, 4);
  await assertNoCode(async () => {
    for (const wrong of ['', 'x', otherState, otherScope, otherSession, `${nonce}a`]) {
      for (const decision of ['allow', 'deny']) {
        const page = await browser.post(addressOf(), { nonce: wrong, decision, store: String(alpha) });
        assert.equal(page.status, 403);
        assert.equal(page.location, null);
        assert.match(page.text, /role="alert"/);
      }
    }
  });
});

test('a browser without Sec-Fetch-Site is recognized by its Origin', async () => {
  const { nonce } = readForm(await browser.open(addressOf()));
  const form = { nonce, decision: 'allow', store: String(alpha) };
  const { status } = await browser.post(addressOf(), form, { 'Sec-Fetch-Site': null, Origin: ISSUER });
  assert.equal(status, 303);
});

test('a foreign store, no store, and no decision give no code', async () => {
  const { nonce } = readForm(await browser.open(addressOf()));
  await assertNoCode(async () => {
    for (const store of [String(foreign), '', '0', `${alpha} `, `0${alpha}`]) {
      const page = await browser.post(addressOf(), { nonce, decision: 'allow', store });
      assert.equal(page.status, 422);
      assert.match(page.text, /Choose one of your stores/);
    }
    assert.equal((await browser.post(addressOf(), { nonce, store: String(alpha) })).status, 422);
  });
});

test('two tabs, two clients and a double click each get a code of their own', async () => {
  const other = { client_id: server.other.client_id, redirect_uri: 'https://other.example.com/cb2' };
  const one = readForm(await browser.open(addressOf({ state: '1' })));
  const two = readForm(await browser.open(addressOf({ state: '2', ...other })));
  const form = { decision: 'allow', store: String(alpha) };
  const answers = [
    await browser.post(two.action, { nonce: two.nonce, ...form }),
    await browser.post(one.action, { nonce: one.nonce, ...form }),
    await browser.post(one.action, { nonce: one.nonce, ...form }),
  ];
  const reached = answers.map(({ location }) => new URL(location ?? ''));
  assert.deepEqual(
    reached.map(({ host, searchParams }) => [host, searchParams.get('state')]),
    [
      ['other.example.com', '2'],
      ['app.example.com', '1'],
      ['app.example.com', '1'],
    ],
  );
  assert.equal(new Set(reached.map(({ searchParams }) => searchParams.get('code'))).size, 3);
});

test('GET and HEAD change nothing', async () => {
  await assertNoCode(async () => {
    assert.equal((await browser.open(addressOf())).status, 200);
    assert.equal((await browser.head(addressOf())).status, 200);
  });
});

test('form-action lists the target of the answer: without it the button does nothing in Chromium', async () => {
  const { headers } = await browser.open(addressOf());
  const [, sources] = /form-action ([^;]*)/.exec(headers.get('content-security-policy') ?? '') ?? [];
  assert.equal(sources, "'self' https://app.example.com https:");
});

test('the name of a client is shown as text', async () => {
  const name = `<script>alert(1)</script>"'&`;
  const details = { name, company: name, description: name, redirectUris: [REDIRECT], trusted: false };
  const { client_id } = await createClient(sql, { ...details, now: new Date() });
  const { text, status } = await browser.open(addressOf({ client_id, state: name }));
  assert.equal(status, 200);
  assert.doesNotMatch(text, /<script/);
  assert.match(text, /&lt;script&gt;alert\(1\)&lt;\/script&gt;&quot;&#39;&amp;/);
});
