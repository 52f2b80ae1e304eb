/** The health of webhooks, counted by a worker and shown by the API, matches what happened. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PERIODS } from '#webhooks/health/figures.ts';
import { startTestApp } from '../setup/app.ts';
import { testDatabase } from '../setup/database.ts';
import { COMPLETE_STOP, startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';

type Resource = Record<string, unknown> & {
  _links: Record<string, { href: string }>;
  _embedded: Record<string, Resource[]>;
};

type OpenApiPath = { get?: { parameters?: { name?: string; schema?: { enum?: string[] } }[] } };

const [DELIVERED, FAILED] = [7, 3];

test('after a stop the health of a webhook shows exactly what was delivered and what failed, and why', async () => {
  const { sql } = await testDatabase();
  const app = await startTestApp({ roles: ['serve'], sql });
  const engine = await startEngine({ sql: storesOf(sql) });
  const receiver = await startReceiver();
  receiver.answer(({ path }, response) => void response.writeHead(path === '/fails' ? 503 : 204).end());
  const worker = await engine.startWorker({ stopping: COMPLETE_STOP });
  const add = (name: string) => engine.addWebhook(`${receiver.url}/${name}`, { storeId: app.storeId });
  const publish = (count: number, from: number) =>
    engine.publish(
      Array.from({ length: count }, (_, n) => from + n),
      worker,
      app.storeId,
    );
  const works = await add('works');
  await publish(DELIVERED - FAILED, 1);
  const fails = await add('fails');
  await publish(FAILED, 100);
  await until(
    () => sql`select outcome from attempt_log`,
    (attempts) => attempts.length === DELIVERED + FAILED,
  );
  // Hourly statistics are written every few seconds; a worker that stops writes them at once.
  await worker.stop();

  const read = async (path: string): Promise<Resource> => {
    const response = await app.api('GET', path);
    assert.equal(response.status, 200);
    return (await response.json()) as Resource;
  };
  const healthOf = (id: number) => read(`/webhooks/${id}/health`);
  const summary = ({ state, attempts, delivered, success_rate, pending, consecutive_failures }: Resource) => {
    return { state, attempts, delivered, success_rate, pending, consecutive_failures };
  };
  assert.deepEqual(summary(await healthOf(works)), {
    state: 'ok',
    attempts: DELIVERED,
    delivered: DELIVERED,
    success_rate: 100,
    pending: 0,
    consecutive_failures: 0,
  });
  const failing = await healthOf(fails);
  assert.deepEqual(summary(failing), {
    state: 'failing',
    attempts: FAILED,
    delivered: 0,
    success_rate: 0,
    pending: FAILED,
    consecutive_failures: FAILED,
  });
  assert.equal((failing['success_trend'] as unknown[]).length, 24);
  assert.deepEqual(
    failing._embedded['svc:failures']?.map(({ outcome, response_code, attempts }) => ({
      outcome,
      response_code,
      attempts,
    })),
    [{ outcome: 'refused', response_code: 503, attempts: FAILED }],
  );
  assert.match(String(failing._embedded['svc:failures']?.[0]?.['reason']), /^Your endpoint answered 503: /);
  const { total_items } = await read(String(failing._embedded['svc:failures']?.[0]?._links['svc:logs']?.href));
  assert.equal(total_items, String(FAILED));

  const overview = await read(`/stores/${app.storeId}/overview`);
  assert.deepEqual(
    overview._embedded['svc:healths']?.map(({ webhook_id }) => webhook_id),
    [fails, works],
    'worst first',
  );
  const { total, failing: failingCount, ok, attempts, delivered, pending } = overview;
  assert.deepEqual(
    { total, failing: failingCount, ok, attempts, delivered, pending },
    { total: 2, failing: 1, ok: 1, attempts: DELIVERED + FAILED, delivered: DELIVERED, pending: FAILED },
  );

  const week = await read(`/stores/${app.storeId}/overview?period=7d`);
  assert.equal(week['period'], '7d');
  assert.match(String(week._links['self']?.href), /overview\?period=7d$/);
  assert.deepEqual([week['attempts'], week['delivered']], [DELIVERED + FAILED, DELIVERED]);
  const [worst] = week._embedded['svc:healths'] ?? [];
  assert.equal([worst?.['success_trend']].flat().length, 28);
  const month = await read(`/webhooks/${works}/health?period=30d`);
  assert.deepEqual([month['attempts'], (month['success_trend'] as unknown[]).length], [DELIVERED, 30]);
  for (const query of ['period=1d', 'period=', 'period=7d&period=30d', 'period=constructor', 'perod=7d']) {
    const { status } = await app.api('GET', `/stores/${app.storeId}/overview?${query}`);
    assert.equal(status, 400, query);
  }
  const openApi = (await (await app.api('GET', '/openapi.json')).json()) as { paths: Record<string, OpenApiPath> };
  const documented = Object.entries(openApi.paths).flatMap(([path, { get }]) =>
    (get?.parameters ?? []).flatMap(({ name, schema }) => (name === 'period' ? [[path, schema?.enum] as const] : [])),
  );
  assert.deepEqual(Object.fromEntries(documented), {
    '/stores/{store_id}/overview': Object.keys(PERIODS),
    '/webhooks/{webhook_id}/health': Object.keys(PERIODS),
  });

  const ofBoth = `${DELIVERED} delivered (70 %), ${FAILED} failed, `;
  const pages = [
    [`/webhooks/${fails}`, `0 delivered (0 %), ${FAILED} failed, `],
    [`/webhooks/${fails}/health`, `0 delivered (0 %), ${FAILED} failed, `],
    [`/stores/${app.storeId}`, ofBoth],
    [`/stores/${app.storeId}/overview`, ofBoth],
  ] as const;
  for (const [path, words] of pages) {
    const page = await (await app.api('GET', path, { headers: { Accept: 'text/html' } })).text();
    const [, description = ''] = /<desc id="chart-1-desc">([^<]*)</.exec(page) ?? [];
    assert.ok(description.startsWith(words), `${path}: ${description}`);
  }
});
