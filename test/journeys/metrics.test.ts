/** The metrics of a process under a load that is known to the last attempt. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { KEY } from '../setup/engine.ts';
import { startTestApp } from '../setup/app.ts';
import { readExposition, scrape, type Exposition } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { OK, rawServer } from '../setup/exchanges.ts';
import { startReceiver } from '../setup/receiver.ts';
import { IS_DIVIDED } from '../setup/suite-handle.ts';
import { until } from '../setup/until.ts';

const port = await freePort();
const at = `http://127.0.0.1:${port}`;
const app = await startTestApp({ env: { METRICS_PORT: String(port) } });
const receiver = await startReceiver();
receiver.answer((got, response) => void response.writeHead(got.path === '/bad' ? 500 : 204).end());

async function addWebhook(path: string, origin = receiver.url): Promise<void> {
  const hook = {
    name: 'Hook',
    format: 'json',
    url: origin + path,
    encryption_key: KEY,
    events: ['transaction/created'],
  };
  assert.equal((await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: hook })).status, 201);
}
async function publish(...ids: number[]): Promise<void> {
  const body = ids.map((id) => ({ event: 'transaction/created', resource: { id, total: 1 } }));
  const path = `/stores/${app.storeId}/events`;
  assert.equal((await app.api('POST', path, { token: app.platformToken, body })).status, 200);
}
const recorded = (seen: Exposition): number =>
  seen.value('halcyon_delivery_attempt_phase_seconds_count', { phase: 'record' }) ?? 0;

test('publishes and attempts are counted exactly', async () => {
  await addWebhook('/good');
  await addWebhook('/bad');
  await publish(1, 2, 3);
  await publish(4, 5);
  // A method that the route does not serve counts with its route.
  assert.equal((await fetch(`${app.baseUrl}/stores/1/events`, { method: 'DELETE' })).status, 405);
  const seen = await until(
    () => scrape(at),
    (one) => recorded(one) === 10,
  );
  const value = (name: string, labels = {}) => seen.value(`halcyon_${name}`, labels);
  assert.equal(value('events_published_total'), 5);
  assert.equal(value('deliveries_created_total'), 10);
  assert.equal(value('publish_batches_total', { result: 'written' }), 2);
  assert.equal(value('publish_batch_events_sum'), 5);
  assert.equal(value('publish_waiting_bytes'), 0);
  assert.equal(value('delivery_attempts_total', { outcome: 'delivered' }), 5);
  assert.equal(value('delivery_attempts_total', { outcome: 'refused' }), 5);
  assert.equal(value('delivery_attempts_total'), 10);
  assert.equal(value('delivery_publish_to_delivered_seconds_count'), 5);
  assert.equal(value('deliveries_ended_total', { state: 'successful' }), 5);
  const [opened = 0, reused = 0] = ['opened', 'reused'].map((from) => value('connections_used_total', { from }));
  assert.equal(opened + reused, 10);
  assert.equal(value('delivery_attempt_phase_seconds_count', { phase: 'connect' }), opened);
  for (const phase of ['wait', 'answer', 'record'])
    assert.equal(value('delivery_attempt_phase_seconds_count', { phase }), 10, phase);
  assert.equal(value('delivery_repeats_total'), 0);
  assert.equal(value('shards_held'), 256);
  assert.equal(value('shards_taken_total', { cause: 'free' }), 256);
  const route = { method: 'POST', route: '/stores/:store_id/events' };
  assert.equal(value('http_requests_total', { ...route, status: '200' }), 2);
  assert.equal(value('http_request_duration_seconds_count', route), 2);
  assert.equal(value('http_requests_total', { ...route, method: 'DELETE', status: '405' }), 1);
});

test('waiting and running attempts are visible as long as they last', async () => {
  const answers: (() => void)[] = [];
  receiver.answer((_got, response) => void answers.push(() => response.writeHead(204).end()));
  const before = receiver.got.length;
  await publish(6);
  await receiver.until(before + 1);
  const busy = await scrape(at);
  assert.equal(busy.value('halcyon_delivery_in_flight'), receiver.open());
  assert.equal(busy.value('halcyon_lanes', { state: 'sending' }), receiver.open());
  // A further database has one shard.
  const ranges = IS_DIVIDED ? 16 + 1 : 16;
  assert.equal(busy.samples.filter(({ name }) => name === 'halcyon_delivery_backlog_age_seconds').length, 2 * ranges);
  for (const answer of answers) answer();
  const idle = await until(
    () => scrape(at),
    (one) => one.value('halcyon_delivery_in_flight') === 0 && one.value('halcyon_delivery_unrecorded') === 0,
  );
  assert.equal(idle.value('halcyon_lanes', { state: 'sending' }), 0);
});

test('a webhook whose endpoint answers 410 is counted apart from one whose deliveries fail', async () => {
  receiver.answer((got, response) => void response.writeHead(got.path === '/gone' ? 410 : 204).end());
  await addWebhook('/gone');
  await publish(7);
  const seen = await until(
    () => scrape(at),
    (one) => (one.value('halcyon_webhook_deactivations_total') ?? 0) > 0,
  );
  const count = (why: string) => seen.value('halcyon_webhook_deactivations_total', { why });
  assert.deepEqual([count('gone'), count('failures')], [1, 0]);
});

test('requests that are sent again within an attempt are counted, because the receiver may get them twice', async () => {
  let requests = 0;
  const { url } = await rawServer((socket) =>
    socket.on('data', () => {
      requests += 1;
      if (requests === 2) socket.resetAndDestroy();
      else socket.write(OK);
    }),
  );
  await addWebhook('/', url);
  for (const [id, expected] of [
    [7, 1],
    [8, 3],
  ] as const) {
    await publish(id);
    await until(
      () => scrape(at),
      (one) => requests === expected && one.value('halcyon_delivery_in_flight') === 0,
    );
  }
  const seen = await scrape(at);
  assert.equal(seen.value('halcyon_delivery_repeats_total', { cause: 'connection' }), 1);
  assert.equal(seen.value('halcyon_delivery_repeats_total'), 1);
});

test('the metrics of the database show its connections and open transactions', async () => {
  const idle = await scrape(at);
  assert.equal(idle.value('halcyon_database_connections_limit'), IS_DIVIDED ? 3 * 10 : 10);
  await app.sql.begin(async (tx) => {
    await tx`select 1`;
    const [one, seen] = await Promise.all([tx`select pg_sleep(0.1)`, scrape(at)]);
    assert.equal(one.length, 1);
    assert.ok((seen.value('halcyon_database_connections_busy') ?? 0) >= 1);
  });
});

test('the table of the handbook has every metric of Halcyon, with its type, and no other', async () => {
  // A test has no clock of the database, which src/db/database-clock.test.ts observes.
  const types = new Map([...(await scrape(at)).types, ['halcyon_clock_ahead_seconds', 'gauge']]);
  const served = [...types].filter(([name]) => name.startsWith('halcyon_')).map(([name, type]) => `${name} ${type}`);
  const handbook = await readFile(join(import.meta.dirname, '../../docs/operating.md'), 'utf8');
  const documented = [...handbook.matchAll(/^\| `(halcyon_\w+)(?:\{[\w,]+\})?` \| (\w+) \|/gm)].map(
    ([, name, type]) => `${name} ${type}`,
  );
  assert.deepEqual(documented.toSorted(), served.toSorted());
});

test('names follow the conventions of Prometheus: counters end in _total, times in _seconds', async () => {
  const { types, samples } = await scrape(at);
  for (const [name, type] of types) {
    if (name.startsWith('halcyon_')) assert.equal(name.endsWith('_total'), type === 'counter', name);
    assert.ok(!/_(?:ms|milliseconds|minutes|kb|kilobytes)(?:_|$)/.test(name), name);
  }
  // No label may have unbounded values, as an id has.
  const series = Map.groupBy(samples, ({ name }) => name);
  for (const [name, { length }] of series) assert.ok(length < 400, `${name} has ${length} series`);
  assert.ok(types.has('process_resident_memory_bytes') && types.has('nodejs_eventloop_lag_p99_seconds'));
});

test('the parser of this test rejects a malformed exposition', () => {
  const good = '# HELP a_total A.\n# TYPE a_total counter\na_total{of="x"} 1\n';
  assert.equal(readExposition(good).value('a_total', { of: 'x' }), 1);
  for (const bad of [
    good.replace('# TYPE a_total counter\n', ''),
    good.replace('} 1', '} one'),
    good.replace('"x"', '"x'),
    `${good}a_total{of="x"} 2\n`,
    good.trimEnd(),
    '# HELP h H.\n# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n',
  ])
    assert.throws(() => readExposition(bad), SyntaxError, bad);
});
