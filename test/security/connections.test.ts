/** Several requests on one connection, some of them malformed: each answer belongs to its request, and is sent once. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startTestApp } from '../setup/app.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { askAlone, type Answer } from '../setup/wire.ts';

const TIMEOUT_MS = 10_000;

const errors: string[] = [];
const log = createLog('error', { write: (line) => void errors.push(line) });
const app = await startTestApp({ roles: ['serve'], log });
const port = Number(new URL(app.baseUrl).port);
const webhooks = `/stores/${app.storeId}/webhooks`;

const head = (method: string, path: string, ...more: readonly string[]): string =>
  [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    'SERVICE-API-VERSION: 1',
    `Authorization: Bearer ${app.token}`,
    'Content-Type: application/json',
    ...more,
    '',
    '',
  ].join('\r\n');

const send = (texts: readonly string[], enough: { ends?: true; wanted?: number } = {}): Promise<readonly Answer[]> =>
  askAlone(port, { method: 'GET', bytes: Buffer.from(texts.join('')) }, { timeoutMs: TIMEOUT_MS, ...enough });
const statusesOf = (answers: readonly Answer[]) => answers.map(({ status }) => status);
function webhook(name: string): string {
  const body = JSON.stringify({ name, format: 'json', encryption_key: 'a key of mine' });
  return head('POST', webhooks, `Content-Length: ${body.length}`) + body;
}
async function names(): Promise<string[]> {
  const rows = await app.sql<{ name: string }[]>`select name from webhook order by name`;
  return rows.map(({ name }) => name);
}

for (const [what, garbage] of Object.entries({
  'a request that is not HTTP': 'nonsense\r\n\r\n',
  'headers that are too large': head('GET', '/', `X: ${'a'.repeat(100_000)}`),
})) {
  test(`${what} is rejected after the answers in progress, so that no client takes the error for theirs`, async () => {
    const before = await names();
    const answers = await send([webhook('One'), webhook('Two'), garbage]);
    assert.deepEqual(statusesOf(answers).slice(0, 2), [201, 201]);
    assert.ok([400, 431].includes(answers[2]?.status ?? 0) && answers.length === 3, statusesOf(answers).join(' '));
    assert.match(answers[2]?.head ?? '', /^connection: close$/im);
    assert.deepEqual(await names(), [...before, 'One', 'Two'].toSorted());
  });
}

test('an incomplete body is rejected once, after the earlier answers', async () => {
  const chunked = head('POST', webhooks, 'Transfer-Encoding: chunked');
  const before = await names();
  assert.deepEqual(statusesOf(await send([chunked, 'zz\r\n'])), [400]);
  assert.deepEqual(statusesOf(await send([head('POST', webhooks, 'Content-Length: 99'), '{}'], { ends: true })), [400]);
  assert.deepEqual(statusesOf(await send([head('GET', webhooks), chunked, 'zz\r\n'])), [200, 400]);
  // The body or the caller may be rejected: there is one answer.
  assert.equal((await send([chunked.replace(app.token, 'x'), 'zz\r\n'])).length, 1);
  assert.deepEqual(await names(), before);
});

test('a request with Expect gets "100 Continue", and never in the middle of an answer', async () => {
  const asking = head('GET', webhooks, 'Expect: 100-continue');
  for (const count of [1, 2, 5]) {
    const answers = await send([asking.repeat(count)], { wanted: count });
    for (const { status, body } of answers) {
      assert.equal(status, 200);
      assert.match(body.toString(), /^\{.*\}$/s);
    }
    assert.equal(answers.length, count);
  }
});

test('an answer that waits for an earlier one contains no "100 Continue"', async () => {
  const ask = (path: string) => head('GET', path, 'Expect: 100-continue');
  const answers = await app.sql.begin(async (sql) => {
    await sql`lock table webhook`;
    const both = send([ask(webhooks) + ask('/')], { wanted: 2 });
    await until(
      () => waitingForLocks(app.sql),
      (waiting) => waiting > 0,
    );
    // The first of the two waits for the table. The second came with it, and completes before the request that follows.
    assert.deepEqual(statusesOf(await send([head('GET', '/')], { wanted: 1 })), [200]);
    return { both };
  });
  const [first, second, ...more] = await answers.both;
  assert.ok(first !== undefined && second !== undefined && more.length === 0);
  for (const { status, body } of [first, second]) {
    assert.equal(status, 200);
    assert.match(body.toString(), /^\{.*\}$/s);
  }
});

test('clients that send a part of a body and wait are cut off before they exhaust the memory', async (t) => {
  const part = Buffer.alloc(15 * 1024 * 1024, ' ');
  const ended: number[] = [];
  // The limit is 256 MiB.
  for (let n = 0; n < 18; n += 1) {
    const client = connect(port, '127.0.0.1').on('error', () => {});
    t.after(() => client.destroy());
    client.once('close', () => ended.push(n));
    const publish = head('POST', `/stores/${app.storeId}/events`, `Content-Length: ${part.length + 1}`);
    client.write(publish.replace(app.token, app.platformToken));
    client.write(part);
  }
  await until(
    async () => ended,
    ({ length }) => length > 0,
  );
  assert.ok(ended.length < 3, `${ended.length} of 18 connections were closed`);
});

test('a connection has a limit of requests that wait for their responses', async () => {
  const ping = head('GET', '/health/live');
  assert.equal((await send([ping.repeat(100)], { wanted: 100 })).length, 100);
  assert.ok((await send([ping.repeat(400)], { wanted: 400 })).length < 100, 'the connection was reset');
  assert.deepEqual(statusesOf(await send([ping], { wanted: 1 })), [200]);
});

test('a request of a connection that is reset at once is no error of the server', async () => {
  const body = 'email=a%40example.com&password=x';
  const headers = [
    'Host: localhost',
    'Content-Type: application/x-www-form-urlencoded',
    `Content-Length: ${body.length}`,
  ];
  const request = ['POST /sign-in HTTP/1.1', 'Sec-Fetch-Site: same-origin', ...headers, '', body].join('\r\n');
  for (let n = 0; n < 100; n += 1) {
    const client = connect(port, '127.0.0.1').on('error', () => {});
    await once(client, 'connect');
    client.write(request);
    client.resetAndDestroy();
  }
  assert.deepEqual(statusesOf(await send([head('GET', '/health/live')], { wanted: 1 })), [200]);
  assert.equal(errors[0], undefined);
});
