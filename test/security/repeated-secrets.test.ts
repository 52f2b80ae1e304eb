/**
 * An endpoint that repeats the request in its response reveals no secret of the webhook, however it writes it: nothing that is stored
 * of a response has a secret, so no reader finds one, by a search neither.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import type { Representation } from '../setup/webhook-api.ts';

const KEY = 'the+key/of"the&receiver';
const VALUE = `a/value+with"quotes' & <signs>`;
const SCHEMED = 'Bearer 9f8e7d6c5b4a';
const TOKEN = 'a pass phrase é';
const QUERY = `token=${encodeURIComponent(TOKEN)}&mode=test`;
const HEADERS = { 'X-Api-Key': VALUE, 'X-Auth': SCHEMED, 'X-Env': 'eu' };
/** Parts of the secrets, of which each spelling has one. */
const CANARIES = [
  'of"the',
  'of\\"the',
  'of&quot;the',
  'of%22the',
  'with',
  '9f8e7d6c5b4a',
  'pass phrase',
  'pass%20phrase',
];

const app = await startTestApp();
const other = await createClient(app.sql, {
  name: 'Other',
  redirectUris: ['https://other.example.com/cb'],
  trusted: false,
  now: app.clock.now(),
});
const grant = { clientId: other.client_id, userId: app.userId, storeId: app.storeId, now: app.clock.now() };
const { access_token: otherToken } = await letAppIn(app, grant);
const readers = [app.token, otherToken, app.platformToken];

const html = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#039;');
const SPELLINGS: Readonly<Record<string, (text: string) => string>> = {
  'as it is': (text) => text,
  'in upper case': (text) => text.toUpperCase(),
  'as JSON': (text) => JSON.stringify({ text }),
  'as JSON with escaped slashes': (text) => JSON.stringify({ text }).replaceAll('/', '\\/'),
  'as HTML': html,
  'as a part of a URL': encodeURIComponent,
  'as a form': (text) => new URLSearchParams({ text }).toString(),
};

async function read(path: string, token = app.token): Promise<string> {
  const response = await app.api('GET', path, { token });
  assert.equal(response.status, 200, path);
  return response.text();
}
const found = (text: string): string[] =>
  CANARIES.filter((canary) => text.toLowerCase().includes(canary.toLowerCase()));

async function createWebhook(url: string): Promise<string> {
  const body = {
    name: 'Orders',
    format: 'json',
    encryption_key: KEY,
    event_resource: 'transaction',
    url,
    headers: HEADERS,
  };
  const response = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body });
  assert.equal(response.status, 201, await response.clone().text());
  return new URL(response.headers.get('location') ?? '').pathname;
}

test('a response that repeats the request is shown to no reader with its secrets, and a search finds none of them', async (t) => {
  const receiver = await startReceiver(t);
  for (const [how, spell] of Object.entries(SPELLINGS)) {
    receiver.answer(({ path, headers }, response) => {
      assert.equal(headers['x-api-key'], VALUE);
      const texts = [KEY, VALUE, SCHEMED, SCHEMED.slice('Bearer '.length), TOKEN, path].map(spell);
      response.writeHead(500, { 'X-Repeated': encodeURIComponent(VALUE), 'X-Path': path });
      response.end(`seen: ${texts.join(' | ')}; in eu`);
    });
    const webhook = await createWebhook(`${receiver.url}/hook?${QUERY}`);
    const tested = await (await app.api('POST', `${webhook}/test`, { token: otherToken })).text();
    const { response_body: body, response_headers: headers } = JSON.parse(tested) as Representation;
    assert.match(String(body), /^seen: .*\*\*\*.*; in eu$/s, how);
    assert.match(String(headers), /x-repeated: \*\*\*\n/i);
    assert.deepEqual(found(tested), [], `${how}: ${String(body)}`);
    for (const token of readers) {
      const logs = await read(`${webhook}/logs`, token);
      const statuses = await read(`${webhook}/statuses`, token);
      const [status] = (JSON.parse(statuses) as Representation)._embedded['svc:statuses'] ?? [];
      // The creator sees the secrets in the request.
      const whole = token === app.token ? '' : await read(status?._links['self']?.href ?? '', token);
      assert.match(logs, /seen: /);
      assert.deepEqual(found(logs + statuses + whole), [], how);
      for (const part of ['9f8e', 'of"the', 'with']) {
        const search = `${webhook}/statuses?${new URLSearchParams({ response_body: `*${part}*` }).toString()}`;
        assert.equal((JSON.parse(await read(search, token)) as Representation)['total_items'], '0', part);
      }
    }
    assert.equal((await app.api('DELETE', webhook)).status, 204);
  }
});

test('a delivery of an event records no secret, and of a long response no part of one', async (t) => {
  const receiver = await startReceiver(t);
  // The end of the stored part falls on each character of the value in turn.
  let known = 0;
  receiver.answer((_got, response) => {
    const before = 16 * 1024 - known;
    known += 1;
    response.end('x'.repeat(before) + SCHEMED + 'y'.repeat(5_000));
  });
  const webhook = await createWebhook(`${receiver.url}/hook?${QUERY}`);
  const id = Number(webhook.split('/').at(-1));
  for (let number = 0; number <= SCHEMED.length; number += 1) {
    const body = { event: 'transaction/created', resource: { id: number + 1 } };
    const published = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
    assert.equal(published.status, 201, await published.clone().text());
  }
  const rows = await until(
    () => app.sql<{ body: string }[]>`select response_body as body from attempt_log where webhook_id = ${id}`,
    ({ length }) => length > SCHEMED.length,
  );
  for (const { body } of rows) assert.match(body, /^x+(?:\*\*\*)?$/);
  assert.ok(rows.some(({ body }) => body.endsWith('***')) && rows.every(({ body }) => body.length <= 16 * 1024 + 3));
});
