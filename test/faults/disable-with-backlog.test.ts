/**
 * A webhook is disabled, enabled and deleted while a million deliveries wait for it: each request is answered at once, none of them
 * is sent any more, all of them end as failed, and other webhooks are not delayed meanwhile.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { nextDeliveryId } from '#db/partitions.ts';
import { createSealer } from '#db/seal.ts';
import { dailyIdOf, dayOf, idOf, shardOf } from '#core/ids.ts';
import { amountOf } from '../setup/amount.ts';
import { startTestApp } from '../setup/app.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { KEY } from '../setup/engine.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const PENDING = Number(
  process.env['HALCYON_TEST_PENDING'] ?? amountOf('disable-with-backlog', { all: 1_000_000, part: 200_000 }),
);
const SWITCHES = 9;
/** So few that the backlog lasts. */
const SLOTS = 16;
/** What had begun before the answer may arrive after it: as many as there are slots, and four times as many for slow ones. */
const IN_FLIGHT_MAX = 5 * SLOTS;
/** Ending a million deliveries takes seconds, and a disable of a webhook without any takes 10 ms. */
const SLOWER_AT_MOST = 10;
/** The interval of deliveries to the other webhook, and the number of them that must arrive during the sweep. */
const LIVE_EVERY_MS = 25;
const LIVE_MEANWHILE_PERCENT = 90;
const SWEPT_WITHIN_MS = 300_000;

const ends = cleanups();
const { sql, address } = await testDatabase(ends);
assert.equal(address.kind, 'socket');
const { storeId, token, platformToken } = await startTestApp({ sql, roles: ['serve'] });
const shard = shardOf(storeId);
const receiver = await startReceiver(ends);
const secretKey = randomBytes(32);
const port = await freePort();
const origin = `http://127.0.0.1:${port}`;

const ask = (method: string, path: string, body?: unknown, bearer = token): Promise<Response> =>
  fetch(origin + path, {
    method,
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${bearer}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

/** Of the n-th path of the receiver. */
async function addWebhook(n: number, event: string): Promise<number> {
  const id = idOf(10_000_000 + n, shard);
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    values (${shard}, ${id}, ${storeId}, 'hook', 'json', '2', ${`${receiver.url}/${n}`},
      ${createSealer(secretKey).seal(KEY, `webhook:${id}`)}, ${event.split('/')[0] ?? ''}, ${[event]}::text[], true, '{}',
      'hour', now(), now())`;
  return id;
}

/** Deliveries of one event, due in the last hour, without an attempt. */
async function addBacklog(webhookId: number, n: number): Promise<void> {
  const day = dayOf(new Date());
  const eventId = dailyIdOf(day, 10_000_000 + n, shard);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    values (${shard}, ${eventId}, ${storeId}, 'transaction', ${`backlog-${n}`}, 'created', 1, ${n}, 'UTC', ${origin},
      now(), ${JSON.stringify({ id: `backlog-${n}`, total_order: 9.5 })})`;
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select ${shard}, ${nextDeliveryId(sql, day, sql`${shard}::smallint`)}, ${storeId},
      ${webhookId}, 0, ${eventId}, 0, now() - random() * interval '1 hour'
    from generate_series(1, ${PENDING}::int)`;
}

async function pendingOf(webhookId: number): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from delivery where shard = ${shard} and webhook_id = ${webhookId}`;
  return row?.n ?? -1;
}
const gotAt = (n: number, afterMs = 0) =>
  receiver.got.filter(({ path, atMs }) => path === `/${n}` && atMs > afterMs).length;
async function timed(method: string, path: string, body?: unknown) {
  const startedMs = performance.now();
  const { status } = await ask(method, path, body);
  return { status, tookMs: performance.now() - startedMs, answeredMs: performance.now() };
}
const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0;

const switched = await addWebhook(1, 'transaction/created');
const deleted = await addWebhook(2, 'transaction/voided');
await addWebhook(3, 'customer/created');
const idle = await addWebhook(4, 'transaction/refunded');
await addBacklog(switched, 1);
await addBacklog(deleted, 2);
await sql`analyze delivery`;
const server = await startProgram({
  root: join(import.meta.dirname, '../..'),
  args: ['serve'],
  env: {
    ...databaseEnvOf(address),
    PORT: String(port),
    BASE_URL: origin,
    HALCYON_DATA: join(tmpdir(), 'halcyon-switch-off'),
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    LOG_LEVEL: 'warn',
    API_RATE_PER_SECOND: '0',
    OUTBOUND_ALLOW: '127.0.0.0/8',
    DELIVERY_SLOTS: String(SLOTS),
  },
  ready: 'is ready.',
});
ends.after(async () => void (await server.end('SIGKILL')));

/** Publishes for the other webhook until `isOver`; returns when each event was published and when it arrived. */
async function live(isOver: () => boolean): Promise<{ publishedMs: number; arrivedMs: number }[]> {
  const published = new Map<string, number>();
  while (!isOver()) {
    const id = `live-${published.size}-${performance.now()}`;
    published.set(id, performance.now());
    const { status } = await ask(
      'POST',
      `/stores/${storeId}/events`,
      { event: 'customer/created', resource: { id } },
      platformToken,
    );
    assert.equal(status, 201);
    await new Promise((resolve) => setTimeout(resolve, LIVE_EVERY_MS));
  }
  const arrivals = () =>
    new Map(
      receiver.got
        .filter(({ path }) => path === '/3')
        .map(({ body, atMs }) => [(JSON.parse(body.toString()) as { id: string }).id, atMs]),
    );
  const arrived = await until(
    async () => arrivals(),
    (found) => [...published.keys()].every((id) => found.has(id)),
  );
  return [...published].map(([id, publishedMs]) => ({ publishedMs, arrivedMs: arrived.get(id) ?? 0 }));
}

/** Waits until no more than a share is pending, while the other webhook receives deliveries all the time. */
async function untilSwept(t: TestContext, webhookId: number, share: number): Promise<void> {
  const startedMs = performance.now();
  const left = await pendingOf(webhookId);
  let isSwept = false;
  const meanwhile = live(() => isSwept);
  await until(
    () => pendingOf(webhookId),
    (pending) => pending <= left * share,
    SWEPT_WITHIN_MS,
  ).finally(() => (isSwept = true));
  const sweptMs = performance.now();
  t.diagnostic(`of ${left} ${100 - share * 100} % ended in ${((sweptMs - startedMs) / 1_000).toFixed(1)} s`);
  const events = await meanwhile;
  const latencies = events.map(({ publishedMs, arrivedMs }) => arrivedMs - publishedMs);
  t.diagnostic(
    `the other webhook meanwhile: p50 ${percentile(latencies, 0.5).toFixed(0)} ms, p95 ${percentile(latencies, 0.95).toFixed(0)} ms of ${latencies.length}`,
  );
  // The last one may have been published at the very end of the sweep.
  const late = events.filter(({ arrivedMs }) => arrivedMs >= sweptMs).length;
  const meanwhilePercent = late <= 1 ? 100 : 100 * (1 - late / events.length);
  assert.ok(meanwhilePercent >= LIVE_MEANWHILE_PERCENT, `${meanwhilePercent} %`);
}

test('a disable is answered at once, and no attempt starts after its answer', async (t) => {
  await until(
    async () => Math.min(gotAt(1), gotAt(2)),
    (least) => least > 200,
  );
  const off = await timed('PATCH', `/webhooks/${switched}`, { is_active: '0' });
  assert.equal(off.status, 200);
  const left = await pendingOf(switched);
  assert.ok(left > PENDING / 2, `most of it is pending: ${left}`);
  // Alternates with a webhook without a backlog: the load of the machine is the same for both.
  const tookMs: Record<number, number[]> = { [switched]: [off.tookMs], [idle]: [] };
  for (let n = 0; n < SWITCHES; n += 1) {
    for (const webhook of [idle, switched]) {
      const { status } = await timed('PATCH', `/webhooks/${webhook}`, { is_active: '1' });
      const again = await timed('PATCH', `/webhooks/${webhook}`, { is_active: '0' });
      assert.deepEqual([status, again.status], [200, 200]);
      tookMs[webhook]?.push(again.tookMs);
    }
  }
  const median = (webhook: number): number => percentile(tookMs[webhook] ?? [], 0.5);
  t.diagnostic(
    `disabled in ${median(switched).toFixed(0)} ms with ${left} pending, in ${median(idle).toFixed(0)} ms with none`,
  );
  assert.ok(median(switched) < SLOWER_AT_MOST * median(idle));
  // Counting a million pending deliveries takes a second; beside other load it may be refused with 503 and Retry-After.
  const listed = await until(
    () => ask('GET', `/webhooks/${switched}/statuses?limit=300`),
    ({ status }) => status !== 503,
  );
  assert.equal(listed.status, 200, await listed.clone().text());
  const page = (await listed.json()) as { _embedded: Record<string, { status: string }[]> };
  const statuses = page._embedded['svc:statuses']?.map(({ status }) => status) ?? [];
  assert.equal(statuses.length, 300);
  assert.ok(statuses.every((status) => status !== 'pending'));
  await untilSwept(t, switched, 0);
  assert.ok(gotAt(1, off.answeredMs) <= IN_FLIGHT_MAX);
  const ended = await sql<{ state: string }[]>`
    select state from delivery_done where webhook_id = ${switched} and attempts = 0 group by state`;
  assert.deepEqual([...ended], [{ state: 'failed' }]);
});

test('an event after the enable is sent, and no delivery from before the disable', async () => {
  await timed('PATCH', `/webhooks/${switched}`, { is_active: '1' });
  const before = gotAt(1);
  const event = { event: 'transaction/created', resource: { id: 'after' } };
  assert.equal((await ask('POST', `/stores/${storeId}/events`, event, platformToken)).status, 201);
  await until(
    async () => gotAt(1),
    (count) => count > before,
  );
  const ids = receiver.got
    .filter(({ path }) => path === '/1')
    .slice(before)
    .map(({ body }) => String(body));
  assert.deepEqual(
    ids.map((body) => (JSON.parse(body) as { id: string }).id),
    ['after'],
  );
});

test('a delete is answered at once as well, and pending deliveries end', async (t) => {
  const none = await timed('DELETE', `/webhooks/${idle}`);
  const left = await pendingOf(deleted);
  const gone = await timed('DELETE', `/webhooks/${deleted}`);
  assert.deepEqual([none.status, gone.status], [204, 204]);
  t.diagnostic(
    `deleted with ${left} pending in ${gone.tookMs.toFixed(0)} ms, with none in ${none.tookMs.toFixed(0)} ms`,
  );
  assert.ok(left > PENDING / 2 && gone.tookMs < SLOWER_AT_MOST * none.tookMs);
  // The code is the same: waiting for the end of all of them would take as long again.
  await untilSwept(t, deleted, 0.9);
  assert.ok(gotAt(2, gone.answeredMs) <= IN_FLIGHT_MAX);
});
