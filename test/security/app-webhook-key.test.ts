/** The key of the webhook that an app declares: replaced on the page of the app, with an overlap or without. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDeclarationPurges } from '#webhooks/webhook-purges-sql.ts';
import { createBrowser, startAuthorizationServer, type Page } from './oauth-server.ts';
import { hiddenIn, newApp, submit } from './page-forms.ts';

const server = await startAuthorizationServer();
const { browser, sql } = server;
const HOUR_MS = 3_600_000;
const KEY = /<code>(whsec_[A-Za-z0-9+/]{43}=)<\/code>/g;

const keysIn = ({ text }: Page): string[] => [...text.matchAll(KEY)].map(([, key = '']) => key);

/** An app that declares a webhook, with the path of its page and its key. */
async function declaring() {
  const { path, clientId } = await newApp(browser, { webhook_url: 'https://mine.example.com/events' });
  const [key = ''] = keysIn(await browser.open(path));
  return { path, clientId, key, replace: (fields = {}) => submit(browser, path, `${path}/webhook-key`, fields) };
}

test('a new key is shown beside the old one for 24 hours, and then alone, whether or not retention has run', async () => {
  const { path, key, replace, clientId } = await declaring();
  assert.equal((await replace()).location, `${path}?done=key-added`);
  const [next = '', current] = keysIn(await browser.open(path));
  assert.equal(current, key);
  assert.notEqual(next, key);
  server.wait(24 * HOUR_MS - 1_000);
  assert.deepEqual(keysIn(await browser.open(path)), [next, key]);
  const move = createDeclarationPurges({ sql, each: () => [sql] }).find(({ name }) => name === 'rotated_app_keys');
  assert.equal(await move?.purge(10, server.now()), 0);
  server.wait(1_000);
  assert.deepEqual(keysIn(await browser.open(path)), [next]);
  assert.equal(await move?.purge(10, server.now()), 1);
  assert.deepEqual(keysIn(await browser.open(path)), [next]);
  const [row] = await sql`
    select next_key as next, rotation_ends_at as ends from app_webhook
    where client = (select id from client where client_id = ${clientId})`;
  assert.deepEqual(row, { next: null, ends: null });
});

test('a rotation is finished early, and a leaked key is replaced at once', async () => {
  const { path, key, replace } = await declaring();
  await replace();
  const [next] = keysIn(await browser.open(path));
  assert.equal((await replace()).location, `${path}?done=key-replaced`, 'the form of a rotation finishes it');
  assert.deepEqual(keysIn(await browser.open(path)), [next]);
  assert.equal((await replace({ at_once: '1' })).location, `${path}?done=key-replaced`);
  const [only = '', ...more] = keysIn(await browser.open(path));
  assert.deepEqual(more, []);
  assert.ok(only !== '' && only !== next && only !== key);
});

test('a second click begins no second rotation, and a finish needs one', async () => {
  const { path, replace } = await declaring();
  await replace();
  const keys = keysIn(await browser.open(path));
  const again = await replace({ change: 'begin' });
  assert.equal(again.status, 409);
  assert.match(again.text, /replaces the current one already/);
  assert.deepEqual(keysIn(await browser.open(path)), keys);
  await replace();
  assert.equal((await replace({ change: 'finish' })).status, 409);
});

test('the app reads both keys with its management token, and the audit records the change without a key', async () => {
  const headers = {
    Cookie: browser.cookie() ?? '',
    'Content-Type': 'application/json',
    'Sec-Fetch-Site': 'same-origin',
  };
  const body = JSON.stringify({
    redirect_uris: ['https://mine.example.com/callback'],
    webhook_url: 'https://mine.example.com/events',
  });
  const made = (await (await fetch(`${server.origin}/register`, { method: 'POST', headers, body })).json()) as Record<
    string,
    string
  >;
  assert.equal(made['next_webhook_key'], undefined);
  const path = `/account/clients/${made['client_id']}`;
  await submit(browser, path, `${path}/webhook-key`);
  const [next, current] = keysIn(await browser.open(path));
  assert.equal(current, made['webhook_key']);
  const read = await fetch(`${server.origin}/register/${made['client_id']}`, {
    headers: { Authorization: `Bearer ${made['registration_access_token']}` },
  });
  const registration = (await read.json()) as Record<string, string>;
  assert.deepEqual([registration['webhook_key'], registration['next_webhook_key']], [current, next]);
  const [entry] = await sql<{ detail: { changed: string[] } }[]>`
    select detail from audit where action = 'client_changed' order by id desc limit 1`;
  assert.deepEqual(entry?.detail.changed, ['webhook_key']);
  assert.doesNotMatch(JSON.stringify(entry), /whsec_/);
});

test('only the developer replaces the key, and an app without a webhook has none', async () => {
  const { path, replace } = await declaring();
  const hidden = hiddenIn(await browser.open(path), `${path}/webhook-key`);
  const stranger = createBrowser(server.origin);
  assert.notEqual((await stranger.post(`${path}/webhook-key`, hidden)).status, 200);
  assert.equal((await browser.post(`${path}/webhook-key`, { ...hidden, nonce: 'x' })).status, 403);
  await replace();
  assert.equal(keysIn(await browser.open(path)).length, 2);
  const { path: without } = await newApp(browser);
  assert.doesNotMatch((await browser.open(without)).text, /webhook-key/);
});
