/** Concurrent publishes of the same through two processes: keys, resources, and one row that cannot be written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { waitingForLocks } from '../setup/locks.ts';
import { openPublishFixture, type Published } from '../setup/publish-fixture.ts';
import { until } from '../setup/until.ts';
import { SEED } from '../setup/seed.ts';

const AT_ONCE = 100;
const FIRST_DAY_MS = Date.parse('2026-01-01T00:00:00Z');
const DAY_MS = 86_400_000;

const fixture = await openPublishFixture();
const { sql, storeId } = fixture;
const servers = await Promise.all([fixture.start(), fixture.start()]);
const originOf = (n: number): string => servers[n % servers.length]?.origin ?? '';

type Resource = { id: string; [name: string]: unknown };
const created = (resource: Resource, key?: string) => ({
  event: 'transaction/created',
  resource,
  ...(key !== undefined && { idempotency_key: key }),
});
/** The same number of requests to each process, all at once. */
const atOnce = (count: number, body: (n: number) => unknown, key?: string): Promise<Published[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => fixture.publish(originOf(n), body(n), key)));
const countOf = (answers: readonly Published[], status: number): number =>
  answers.filter((answer) => answer.status === status).length;
const idsOf = (answers: readonly Published[]): number[] => answers.flatMap(({ events }) => events.map(({ id }) => id));
const versionsOf = (answers: readonly Published[]): number[] =>
  answers.flatMap(({ events }) => events.map(({ resource_version: version }) => version));
const rising = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);
async function eventsAbout(id: string): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from event where resource_id = ${id}`;
  return row?.n ?? 0;
}
async function read(n: number, id: string): Promise<Record<string, unknown>> {
  const response = await fixture.ask(originOf(n), 'GET', `/stores/${storeId}/transactions/${id}`);
  return (await response.json()) as Record<string, unknown>;
}
const dateOf = (day: number): string => new Date(FIRST_DAY_MS + day * DAY_MS).toISOString();

test('a hundred posts of one key over two processes make one event, and all get the same answer', async () => {
  const answers = await atOnce(AT_ONCE, () => created({ id: 'once' }), 'once');
  assert.equal(countOf(answers, 201), AT_ONCE);
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal(await eventsAbout('once'), 1);
});

test('a key that two processes find free at the same moment is taken by one, and the other gets its answer', async () => {
  const holder = await sql.reserve();
  await holder`begin`;
  await holder`
    insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
    values (${storeId % 256}, ${storeId}, 'free', ${Buffer.alloc(32)}, array[1], now())`;
  const answered = atOnce(2, () => created({ id: 'free' }), 'free');
  await until(
    () => waitingForLocks(sql),
    (waiting) => waiting === 2,
  );
  await holder`rollback`;
  holder.release();
  const answers = await answered;
  assert.deepEqual([countOf(answers, 201), new Set(answers.map(({ text }) => text)).size], [2, 1]);
  assert.equal(await eventsAbout('free'), 1);
});

test('of two bodies under one key over two processes one succeeds, and the other is rejected each time', async () => {
  const answers = await atOnce(AT_ONCE, (n) => created({ id: 'either', side: Math.floor(n / 2) % 2 }), 'either');
  const [half, other] = [0, 1].map((side) => answers.filter((_answer, n) => Math.floor(n / 2) % 2 === side)) as [
    Published[],
    Published[],
  ];
  const [won, lost] = countOf(half, 201) > 0 ? [half, other] : [other, half];
  assert.equal(countOf(won, 201), AT_ONCE / 2);
  assert.equal(countOf(lost, 422), AT_ONCE / 2);
  assert.equal(new Set(idsOf(won)).size, 1);
  assert.equal(await eventsAbout('either'), 1);
});

test('a resource fifty times in an array and in fifty posts over two processes has versions 1 to 100', async () => {
  const array = Array.from({ length: 50 }, (_, n) => created({ id: 'many', from: 'array', n }));
  const [inArray, posts] = await Promise.all([
    fixture.publish(originOf(1), array),
    atOnce(50, (n) => created({ id: 'many', from: 'posts', n })),
  ]);
  assert.deepEqual([inArray.status, countOf(posts, 201)], [200, 50]);
  const ofArray = versionsOf([inArray]);
  assert.deepEqual(ofArray, rising(ofArray), 'those of an array keep its order');
  assert.deepEqual(rising([...ofArray, ...versionsOf(posts)]), upTo(100));
  const last = posts.findIndex(({ events }) => events[0]?.resource_version === 100);
  const expected = last === -1 ? { from: 'array', n: 49 } : { from: 'posts', n: last };
  for (const n of [0, 1]) {
    const { from, n: index } = await read(n, 'many');
    assert.deepEqual({ from, n: index }, expected);
  }
});

test('dated versions in any order, one after the other: newer ones increase the version, older ones have version 0', async () => {
  const days = fc.sample(fc.shuffledSubarray(upTo(40), { minLength: 40 }), { numRuns: 1, seed: SEED })[0] ?? [];
  let [newest, version] = [0, 0];
  for (const [n, day] of days.entries()) {
    const answer = await fixture.publish(originOf(n), created({ id: 'dated', day, date_modified: dateOf(day) }));
    const isNewer = day > newest;
    if (isNewer) [newest, version] = [day, version + 1];
    assert.deepEqual(versionsOf([answer]), [isNewer ? version : 0], `day ${day} of ${days.join(' ')}`);
    assert.equal((await read(n + 1, 'dated'))['day'], newest);
  }
});

test('an older version has version 0 also if one without a date follows in its array', async () => {
  await fixture.publish(originOf(0), created({ id: 'mixed-in', date_modified: dateOf(9) }));
  const array = [created({ id: 'mixed-in', date_modified: dateOf(5) }), created({ id: 'mixed-in', last: true })];
  const [older, newer = 0] = versionsOf([await fixture.publish(originOf(1), array)]);
  assert.equal(older, 0);
  assert.ok(newer > 1);
  assert.equal((await read(0, 'mixed-in'))['last'], true);
});

test('concurrent dated versions over two processes: the latest by date is the last, and version numbers follow the dates', async () => {
  const dayOf = (n: number): number => (n * 37) % 101;
  const answers = await atOnce(AT_ONCE, (n) =>
    created({ id: 'mixed', day: dayOf(n), date_modified: dateOf(dayOf(n)) }),
  );
  assert.equal(countOf(answers, 201), AT_ONCE);
  const ranked = versionsOf(answers)
    .map((version, n) => ({ version, day: dayOf(n) }))
    .filter(({ version }) => version > 0)
    .toSorted((a, b) => a.version - b.version);
  assert.equal(new Set(ranked.map(({ version }) => version)).size, ranked.length, 'no version twice');
  const days = ranked.map(({ day }) => day);
  assert.deepEqual(days, rising(days));
  assert.equal(days.at(-1), 100);
  assert.equal((await read(0, 'mixed'))['day'], 100);
});

test('one event of five hundred that cannot be written is rejected alone', async () => {
  await sql`alter table event add constraint no_poison check (resource_id <> 'poison') not valid`;
  const answers = await atOnce(500, (n) => created({ id: n === 250 ? 'poison' : `good${n}` }));
  assert.deepEqual([countOf(answers, 201), countOf(answers, 500)], [499, 1]);
  const [row] = await sql<
    { n: number }[]
  >`select count(distinct resource_id) as n from event where resource_id like 'good%'`;
  assert.equal(row?.n, 499);
  assert.equal(answers[250]?.status, 500);
  const [left] = await sql<{ n: number }[]>`select count(*) as n from resource where id = 'poison'`;
  assert.equal(left?.n, 0);
});

test('a webhook that is disabled through one process receives no event that another publishes', async () => {
  const id = await fixture.addWebhook(originOf(0), 'customer');
  const deliveries: number[] = [];
  for (const [n, isActive] of ['1', '0', '1', '0'].entries()) {
    await fixture.ask(originOf(n), 'PATCH', `/webhooks/${id}`, { body: { is_active: isActive } });
    const answer = await fixture.publish(originOf(n + 1), { event: 'customer/created', resource: { id: `c${n}` } });
    const rows = await sql`select from delivery where webhook_id = ${id} and event_id = any (${idsOf([answer])})`;
    deliveries.push(rows.length);
  }
  assert.deepEqual(deliveries, [1, 0, 1, 0]);
});

test('a key stays valid after the end of its process', async () => {
  const first = await fixture.start();
  const answer = await fixture.publish(first.origin, created({ id: 'kept' }), 'kept');
  await first.end('SIGKILL');
  const second = await fixture.start();
  const again = await fixture.publish(second.origin, created({ id: 'kept' }), 'kept');
  assert.deepEqual([again.status, again.text], [201, answer.text]);
  assert.equal(await eventsAbout('kept'), 1);
  await second.end('SIGTERM');
});

test('PostgreSQL had no deadlock', async () => {
  assert.equal(await fixture.runCleanups(servers), 0);
});
