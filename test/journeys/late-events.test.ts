/** Events that arrive after the erasure of their resource, and are dated before it, bring nothing of it back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceErased } from '#delivery/announce.ts';
import { eraseResource } from '#events/erase/erasure.ts';
import { shardOf } from '#core/ids.ts';
import { formatDate } from '#hypermedia/date.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, storeId, platformToken: token } = app;
const at = `/stores/${storeId}`;
const MINUTE_MS = 60_000;
const dated = (minutes: number): string => formatDate(new Date(clock.now().getTime() + minutes * MINUTE_MS), 'UTC');

type Json = Record<string, unknown>;
type Published = { id: number; resource_version: number };

async function publish(body: Json | Json[]): Promise<Published[]> {
  const response = await api('POST', `${at}/events`, { token, body });
  assert.ok(response.ok, await response.clone().text());
  const answer = (await response.json()) as Published & { _embedded?: { 'svc:events': Published[] } };
  return answer._embedded?.['svc:events'] ?? [answer];
}
const erase = async (path: string): Promise<number> => (await api('DELETE', at + path, { token })).status;
const statusOf = async (path: string): Promise<number> => (await api('GET', at + path)).status;

/** Returns the rows of all tables that contain a text. */
async function textsWith(text: string): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition`;
  const found = await Promise.all(
    tables.map(
      ({ name }) =>
        sql<{ row: string }[]>`select t::text as row from ${sql(name)} as t where t::text like ${`%${text}%`}`,
    ),
  );
  return found.flat().map(({ row }) => row);
}

async function addWebhook(more: Json): Promise<string> {
  const body = { name: 'Hook', format: 'json', encryption_key: 'k', ...more };
  const made = await api('POST', `${at}/webhooks`, { body });
  assert.equal(made.status, 201);
  return `/webhooks/${((await made.json()) as { id: number }).id}`;
}

test('an event that is dated before the erasure has version 0, no payload and no delivery', async () => {
  const webhook = await addWebhook({ is_held: '1', event_resource: 'customer' });
  const resource = { id: 'ada', email: 'ada@example.com', date_modified: dated(-60) };
  const version = async (more: Json) =>
    (await publish({ event: 'customer/modified', resource: { ...resource, ...more } }))[0];
  await version({});
  assert.equal(await erase('/customers/ada'), 204);
  const late = await version({ date_modified: dated(-1) });
  assert.equal(late?.resource_version, 0);
  assert.equal(await statusOf('/customers/ada'), 404);
  assert.equal(await statusOf(`/events/${late?.id}/payload`), 404);
  const deliveries = await sql`select from delivery where event_id = ${late?.id ?? 0}`;
  assert.equal(deliveries.length, 0);
  assert.deepEqual(await textsWith('ada@example.com'), []);

  // After the erasure, whose event is version 2, or without a date the event makes a new resource, of which late events are no version.
  const next = await version({ email: 'ida@example.com', date_modified: null });
  assert.equal((await version({ date_modified: dated(-1) }))?.resource_version, 0);
  const last = await version({ email: 'ida@example.com', date_modified: dated(30) });
  assert.deepEqual([next?.resource_version, last?.resource_version], [3, 4]);
  assert.equal(await statusOf('/customers/ada'), 200);
  assert.deepEqual(await textsWith('ada@example.com'), []);
  assert.equal((await api('DELETE', webhook)).status, 204);
});

test('a subscription that is published during its erasure derives nothing if its version is older', async () => {
  const version = (frequency: string) => ({
    event: 'subscription/modified',
    resource: {
      id: 'raced',
      frequency,
      is_active: true,
      customer_email: 'bob@raced.example',
      date_modified: dated(-1),
    },
  });
  await publish(version('1m'));
  let racing: Promise<Published[]> | undefined;
  const announce = async (...args: Parameters<typeof announceErased>) => {
    racing = publish(version('2m'));
    await until(
      () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      (rows) => rows.length === 1,
    );
    await announceErased(...args);
  };
  await eraseResource(
    { sql: storesOf(sql), caches: { announce, forget: () => {} } },
    { shard: shardOf(storeId), storeId, type: 'subscription', id: 'raced' },
    { unmodified: () => {}, now: clock.now() },
  );
  assert.equal((await racing)?.[0]?.resource_version, 0);
  assert.deepEqual(await textsWith('bob@raced.example'), []);
});

test('an older version that arrives with an event from before the erasure is erased with the next erasure', async () => {
  const version = (date: string) => ({
    event: 'subscription/modified',
    resource: { id: 'twice', frequency: '1m', customer_email: 'eve@twice.example', date_modified: date },
  });
  await publish(version(dated(-60)));
  assert.equal(await erase('/subscriptions/twice'), 204);
  await publish(version(dated(40)));
  await publish([version(dated(20)), version(dated(-60))]);
  clock.advance(10 * MINUTE_MS);
  assert.equal(await erase('/subscriptions/twice'), 204);
  assert.equal((await publish(version(dated(-5))))[0]?.resource_version, 0);
  assert.deepEqual(await textsWith('eve@twice.example'), []);
});

function permutations<T>(all: readonly T[]): T[][] {
  if (all.length === 0) return [[]];
  return all.flatMap((one, n) => permutations(all.toSpliced(n, 1)).map((rest) => [one].concat(rest)));
}

/** Dated before the erasure: `pair` and `repeated`. `undated` and `newer` make a new resource after it, `mixed` does both. */
type Step = 'pair' | 'repeated' | 'undated' | 'mixed' | 'newer' | 'refeed' | 'erase';
const CHOICES: readonly (readonly Step[])[] = [
  ['repeated', 'repeated', 'pair', 'refeed', 'erase'],
  ['undated', 'mixed', 'newer', 'erase'],
  ['undated', 'pair', 'newer', 'erase'],
];
const TYPES = ['customer', 'subscription'] as const;

/** A resource in one order of the steps, and what is expected of it. */
type Walk = {
  type: (typeof TYPES)[number];
  id: string;
  steps: readonly Step[];
  wasErased: boolean;
  /** Of the latest version; undefined if the resource does not exist. */
  email?: string;
};

const dates = { earlier: dated(-60), pair: [dated(-50), dated(-70)], repeated: dated(-40), newer: dated(40) } as const;

/** Returns the events of a step, and notes which of them is the latest. */
function eventsOf(walk: Walk, step: Step): Json[] {
  const { type, id } = walk;
  const event = (date: string | null, more: Json = {}): Json => {
    const isLate = walk.wasErased && date !== null && date !== dates.newer;
    const email = `${walk.wasErased && !isLate ? 'after' : 'before'}@${id}.example`;
    if (!isLate) walk.email = email;
    const resource = { id, email, frequency: '1m', is_active: true, date_modified: date };
    return { event: `${type}/modified`, resource, ...more };
  };
  if (step === 'pair') return dates.pair.map((date) => event(date));
  if (step === 'repeated') return [event(dates.repeated, { idempotency_key: id })];
  if (step === 'undated') return [event(null)];
  if (step === 'mixed') return [event(null), event(dates.earlier), event(null)];
  return step === 'newer' ? [event(dates.newer)] : [];
}

async function eraseOf(walk: Walk): Promise<void> {
  assert.equal(await erase(`/${walk.type}s/${walk.id}`), walk.email === undefined ? 404 : 204);
  walk.wasErased = walk.email !== undefined;
  delete walk.email;
}

async function refeedOf({ type, id, email }: Walk): Promise<void> {
  const { status } = await api('POST', `${at}/${type}s/${id}/send_webhooks`, { token, body: {} });
  assert.equal(status === 404, email === undefined);
}

test('whatever the order of publishes, repetitions, refeeds and the erasure, no body of before it is stored or sent', async (t) => {
  const webhooks: string[] = [];
  for (const type of TYPES)
    webhooks.push(await addWebhook({ url: receiver.url, event_resource: type, is_active: '0' }));
  const orders = [...new Map(CHOICES.flatMap(permutations).map((steps) => [steps.join(), steps])).values()];
  const walks = orders.flatMap((steps, n) =>
    TYPES.map((type): Walk => ({ type, id: `${type}-${n}`, steps, wasErased: false })),
  );
  for (const place of [0, 1, 2, 3, 4]) {
    const of = (step: Step) => walks.filter(({ steps }) => steps[place] === step);
    for (const walk of of('erase')) await eraseOf(walk);
    for (const walk of of('refeed')) await refeedOf(walk);
    for (const type of TYPES) {
      const events = walks.flatMap((walk) => (walk.type === type ? eventsOf(walk, walk.steps[place] ?? 'erase') : []));
      await publish(events);
    }
  }
  const erased = walks.filter(({ wasErased }) => wasErased);
  const stored = await sql<{ type: string; id: string; email: string }[]>`
    select type, id, body::json ->> 'email' as email from resource where type = any (${[...TYPES]})`;
  const latest = new Map(stored.map(({ id, email }) => [id, email]));
  for (const { id, steps, email } of walks) assert.equal(latest.get(id), email, steps.join());
  // The text of every table at once, because each walk has its own.
  const left = (await textsWith('before@')).filter((text) => erased.some(({ id }) => text.includes(`@${id}.example`)));
  assert.deepEqual(left, []);

  for (const webhook of webhooks) {
    assert.equal((await api('PATCH', webhook, { body: { is_active: '1' } })).status, 200);
    assert.equal((await api('POST', `${webhook}/recover`, { body: { since: dated(-100) } })).status, 202);
  }
  await until(
    () => sql`select from recovery where state in ('waiting', 'running')`,
    ({ length }) => length === 0,
  );
  const deliveries = await sql<{ body: string }[]>`
    select e.body from event e
    join (select shard, webhook_id, event_id from delivery union all select shard, webhook_id, event_id from delivery_done) as d
      on d.shard = e.shard and d.event_id = e.id
    where d.webhook_id = any (${webhooks.map((path) => Number(path.split('/').at(-1)))}::bigint[])`;
  assert.ok(deliveries.length > 0);
  assert.equal(deliveries.filter(({ body }) => body === '').length, 0);
  t.diagnostic(`${walks.length} resources, ${erased.length} of them erased`);
});
