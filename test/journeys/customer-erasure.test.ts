/** A customer is erased: the copies in other resources and the answers of receivers are erased as well. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceErased } from '#delivery/announce.ts';
import { blankAnswers } from '#delivery/record/record-sql.ts';
import { createErasurePurges } from '#events/erase/erasure.ts';
import { createLog } from '#core/log.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, storeId, platformToken: token } = app;
const MINUTE_MS = 60_000;
const BATCH = 4;
let words = 0;
function announce(...args: Parameters<typeof announceErased>) {
  words += 1;
  return announceErased(...args);
}
const [, copyPurge, answers] = createErasurePurges({
  sql,
  log: createLog('silent'),
  caches: { announce, forget: () => {} },
  blankAnswers,
});

type Json = Record<string, unknown>;
const at = `/stores/${storeId}`;

async function publish(event: string, resource: Json): Promise<number> {
  const answer = await api('POST', `${at}/events`, { token, body: { event, resource } });
  assert.equal(answer.status, 201);
  return ((await answer.json()) as { id: number }).id;
}
async function addHook(event: string, path: string): Promise<void> {
  const url = `${receiver.url}${path}`;
  const body = { name: 'Hook', format: 'json', encryption_key: 'k', url, events: [event], query: 'zoom=customer' };
  assert.equal((await api('POST', `${at}/webhooks`, { body })).status, 201);
}
const textOf = async (path: string): Promise<string> => (await api('GET', at + path)).text();
const etagOf = async (path: string): Promise<string | null> => (await api('GET', at + path)).headers.get('etag');
const erase = async (path: string): Promise<void> =>
  assert.equal((await api('DELETE', at + path, { token })).status, 204);
/** Runs the batches as retention does. */
async function keptFixture(later = 0): Promise<void> {
  const now = new Date(clock.now().getTime() + later);
  for (const one of [copyPurge, answers]) while ((await one?.purge(BATCH, now)) === BATCH);
}
const ada = (id: unknown, more: Json = {}): Json => ({ id, email: 'ada@example.com', ...more });
const withAda = (id: string, relation: string, customer: unknown): Json => ({
  id,
  total: 9,
  _embedded: { [relation]: customer, items: [{ id: 5501, name: 'Brush' }] },
});

test('copies are erased from the latest versions and from the events, under any prefix and as a number or a text', async () => {
  await publish('customer/created', ada(5501));
  const copies = [
    await publish('transaction/created', withAda('1', 'customer', ada(5501))),
    await publish('transaction/modified', withAda('1', 'fx:customer', ada('5501'))),
    await publish('subscription/created', {
      ...withAda('2', 'svc:customer', ada(5501)),
      is_active: true,
      frequency: '1m',
    }),
    await publish('transaction/created', withAda('3', 'customer', [ada(7), ada(5501)])),
  ];
  const before = await etagOf('/transactions/1?zoom=customer');
  await erase('/customers/5501');
  await keptFixture();
  const left = await sql<{ body: string }[]>`
    select body from resource where body like '%ada@%' union all select body from event where body like '%ada@%'`;
  // The other customer of the third transaction, in its one version and in its event.
  assert.deepEqual(
    left.map(({ body }) => body),
    Array(2).fill(left[0]?.body),
  );
  assert.match(left[0]?.body ?? '', /"id":7,/);
  assert.notEqual(await etagOf('/transactions/1?zoom=customer'), before);
  assert.match(await textOf(`/events/${copies[0]}/payload?zoom=items`), /Brush/);
  assert.match(await textOf('/transactions/1?zoom=items'), /Brush/);
});

test('workers are notified once of all copies on a page', async () => {
  await publish('customer/created', ada('many'));
  const body = Array.from({ length: 20 }, (_, n) => ({
    event: 'transaction/created',
    resource: withAda(`many-${n}`, 'customer', ada('many')),
  }));
  assert.equal((await api('POST', `${at}/events`, { token, body })).status, 200);
  await erase('/customers/many');
  words = 0;
  while ((await copyPurge?.purge(100, clock.now())) === 100);
  assert.equal(words, 1);
});

test('copies nested within other members are erased as well', async () => {
  await publish('customer/created', ada('deep'));
  const last = withAda('10', 'customer', ada('deep'));
  await publish('subscription/created', {
    id: '11',
    _embedded: { last_transaction: { ...last, _embedded: { x: [last] } } },
  });
  await erase('/customers/deep');
  await keptFixture();
  const left = await sql`select from resource where id = '11' and body like '%ada@%'`;
  assert.equal(left.length, 0);
});

test('a customer whose id has the same beginning, or who is of another store, stays', async () => {
  await publish('customer/created', ada(77));
  await publish('transaction/created', withAda('20', 'customer', ada(778)));
  const other = 999_999 * 256 + (storeId % 256);
  await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
    values (${storeId % 256}, ${other}, 'transaction', '1', 1, now(), 1, 'UTC', 'x', ${JSON.stringify(withAda('1', 'customer', ada(77)))})`;
  await erase('/customers/77');
  await keptFixture();
  assert.match(await textOf('/transactions/20?zoom=customer'), /ada@/);
  const [kept] = await sql<{ body: string }[]>`select body from resource where store_id = ${other}`;
  assert.match(kept?.body ?? '', /ada@/);
});

test('a version published after the erasure stays, and the search ends', async () => {
  await publish('customer/created', ada('again'));
  await publish('transaction/created', withAda('30', 'customer', ada('again')));
  await erase('/customers/again');
  const since = await publish('transaction/created', withAda('31', 'customer', ada('again')));
  await keptFixture();
  assert.match(await textOf('/transactions/31?zoom=customer'), /ada@/);
  assert.match(await textOf(`/events/${since}/payload?zoom=customer`), /ada@/);
  assert.doesNotMatch(await textOf('/transactions/30?zoom=customer'), /ada@/);
  assert.equal((await sql`select from erased_customer`).length, 0);
});

test('a delivery after the search has no copy, though a worker had it in memory', async () => {
  await addHook('transaction/voided', '/copy');
  receiver.answer((_got, response) => void response.writeHead(500).end('I do not know ada@example.com'));
  await publish('customer/created', ada('sent'));
  const id = await publish('transaction/voided', withAda('40', 'customer', ada('sent')));
  const got = () => receiver.got.filter(({ path }) => path === '/copy').map((one) => one.body.toString());
  const attempts = () =>
    sql<{ n: number; body: string | null }[]>`select n, response_body as body from attempt_log where event_id = ${id}`;
  await until(attempts, (rows) => rows.length === 1);
  assert.match(got()[0] ?? '', /ada@/);
  await erase('/customers/sent');
  await keptFixture();
  assert.match((await attempts())[0]?.body ?? '', /ada@/, 'an attempt may still be in flight');
  await keptFixture(11 * MINUTE_MS);
  assert.deepEqual(
    (await attempts()).map(({ n, body: kept }) => [n, kept]),
    [[1, null]],
  );
  clock.advance(2 * MINUTE_MS);
  await until(attempts, (rows) => rows.length === 2);
  assert.doesNotMatch(got()[1] ?? '', /ada@/);
});

test('answers to events that had ended are emptied as well', async () => {
  await addHook('transaction/captured', '/thanks');
  receiver.answer((_got, response) => void response.writeHead(200).end('thanks for ada@example.com'));
  const id = await publish('transaction/captured', { id: '50' });
  const attempts = () => sql<{ body: string | null; headers: string | null }[]>`
    select response_body as body, response_headers as headers from attempt_log where event_id = ${id}`;
  await until(
    () => sql`select from delivery_done where event_id = ${id}`,
    (rows) => rows.length === 1,
  );
  assert.match((await attempts())[0]?.body ?? '', /ada@/);
  await erase('/transactions/50');
  await keptFixture(11 * MINUTE_MS);
  assert.deepEqual(
    (await attempts()).map(({ body, headers }) => [body, headers]),
    [[null, null]],
  );
  assert.equal((await sql`select from erased_event`).length, 0);
});

test('an answer that a listener sends long after an erasure is emptied as well', async () => {
  const held = { name: 'Laptop', format: 'json', encryption_key: 'k', is_held: '1', events: ['transaction/refunded'] };
  const made = await api('POST', `${at}/webhooks`, { body: held });
  const webhook = `/webhooks/${String(((await made.json()) as { id: number }).id)}`;
  const id = await publish('transaction/refunded', { id: '60' });
  const [delivery] = await sql<{ id: number }[]>`select id from delivery where event_id = ${id}`;
  await erase('/transactions/60');
  await keptFixture(11 * MINUTE_MS);
  const body = {
    response_code: 200,
    duration: 1,
    response_headers: 'x-for: ada',
    response_body: 'thanks for ada@example.com',
  };
  const answered = await api('POST', `${webhook}/statuses/${delivery?.id}/answer`, { body });
  assert.equal(answered.status, 200);
  await keptFixture(22 * MINUTE_MS);
  const kept =
    await sql`select response_body as body, response_headers as headers from attempt_log where event_id = ${id}`;
  assert.deepEqual([...kept], [{ body: null, headers: null }]);
  assert.equal((await sql`select from erased_event`).length, 0);
});
