/** Expensive queries are limited per store, in size and in time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDate } from '#hypermedia/date.ts';
import { startTestApp } from '../setup/app.ts';
import { openSecondStore } from '../setup/second-store.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp({ roles: ['serve'] });
const { sql, storeId, platformToken } = app;
const second = await openSecondStore(app);

const hook = { name: 'Mine', format: 'json', event_resource: 'customer', encryption_key: 'a key of mine' };
const made = await app.api('POST', `/stores/${storeId}/webhooks`, { body: hook });
assert.equal(made.status, 201);
const webhook = made.headers.get('location') ?? '';

async function publish(resources: readonly object[]) {
  const body = resources.map((resource) => ({ event: 'customer/created', resource }));
  const { status } = await app.api('POST', `/stores/${storeId}/events`, { token: platformToken, body });
  assert.equal(status, 200);
}

/** Locks the table against reads while `run` runs. */
async function whileLocked(table: string, run: () => Promise<void>): Promise<void> {
  const hold = await sql.reserve();
  try {
    await hold`begin`;
    await hold`lock table ${hold(table)} in access exclusive mode`;
    await run();
  } finally {
    await hold`rollback`;
    hold.release();
  }
}

test('of twenty searches of a store three wait for one, and another store is read at once', async () => {
  const searches: Promise<Response>[] = [];
  await whileLocked('resource', async () => {
    const search = () => app.api('GET', `/stores/${storeId}/transactions?a:not=1`);
    searches.push(...Array.from({ length: 20 }, search));
    let refused = 0;
    for (const answer of searches) void answer.then(() => (refused += 1));
    // All have arrived: four stay, and the others are rejected at once.
    await until(
      async () => refused,
      (count) => count === 16,
    );
    assert.equal((await app.api('GET', `/stores/${second.storeId}`, { token: second.token })).status, 200);
  });
  const answers = await Promise.all(searches);
  const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [...Array.from({ length: 4 }, () => 200), ...Array.from({ length: 16 }, () => 429)]);
  const refused = answers.find(({ status }) => status === 429);
  assert.equal(refused?.headers.get('retry-after'), '60', 'the time limit of a search');
  assert.match(await refused.text(), /"code":"too_many_searches".*"3 searches /);
});

const LARGE_BYTES = 200_000;

test('a page that would be too large names the number of items that fit, and that many are answered', async () => {
  const note = 'x'.repeat(LARGE_BYTES);
  for (const tens of [0, 1, 2, 3, 4]) {
    await publish(Array.from({ length: 10 }, (_, n) => ({ id: 10 * tens + n, note })));
  }
  const customers = `/stores/${storeId}/customers`;
  const large = await app.api('GET', `${customers}?limit=50`);
  const text = await large.text();
  assert.equal(large.status, 400);
  const fitting = Number(/"code":"too_large".*use limit=(\d+)/.exec(text)?.[1]);
  assert.equal(fitting, Math.floor((8 * 1024 * 1024) / (LARGE_BYTES + '{"id":10,"note":""}'.length)));
  const fits = (await (await app.api('GET', `${customers}?limit=${fitting}`)).json()) as Record<string, unknown>;
  assert.deepEqual([fits['returned_items'], fits['total_items']], [fitting, '50']);
});

const SOON_OVER = { SEARCH_LIMIT_MS: '500' };

for (const [part, table] of [
  ['statuses', 'delivery_done'],
  ['logs', 'attempt'],
] as const) {
  test(`a search for the ${part} of a webhook ends at its time limit`, async () => {
    await app.restart(SOON_OVER);
    await whileLocked(table, async () => {
      let answer: Response | undefined;
      void app.api('GET', `${webhook}/${part}`).then((response) => (answer = response));
      await until(
        async () => answer?.status,
        (status) => status === 503,
      );
      assert.equal(answer?.headers.get('retry-after'), '5');
    });
  });
}

test('a search that takes too long offers the same search of a shorter time, as a link and as a form', async () => {
  await app.restart(SOON_OVER);
  const path = `${webhook}/statuses?event=customer%2Fcreated&limit=5&offset=5`;
  let offered = '';
  await whileLocked('delivery_done', async () => {
    const refused = await app.api('GET', path);
    assert.equal(refused.status, 400);
    const { _links: links } = (await refused.json()) as { _links: Record<string, { href: string }> };
    offered = links['related']?.href ?? '';
    const html = await (await app.api('GET', path, { headers: { accept: 'text/html' } })).text();
    assert.match(html, /<form method="get" action="[^"]*\/statuses"/);
    const week = formatDate(new Date(app.clock.now().getTime() - 7 * 86_400_000), 'Europe/Berlin').slice(0, 13);
    assert.match(html, new RegExp(`name="date_created:greaterthan"\\s+value="${week}`));
    assert.match(html, /<option value="customer\/created"\s+selected/);
  });
  // With time for the shorter search.
  await app.restart({});
  const { pathname, searchParams } = new URL(offered);
  assert.equal(pathname, new URL(path, offered).pathname);
  assert.deepEqual([searchParams.get('limit'), searchParams.has('offset')], ['5', false]);
  assert.equal((await app.api('GET', offered)).status, 200);
});
