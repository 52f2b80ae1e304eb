/** Snapshots of a store with 100,000 subscriptions, and of five hundred stores with the same midnight. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { SHARDS, shardOf } from '#core/ids.ts';
import { snapshotsOf, startRevenue, euros } from '../setup/revenue.ts';

const SUBSCRIPTIONS = 100_000;
const TERMS_EACH = 3;
const STORES = 500;
/** Of the whole: a single transaction would be all of it. It is 3 % here. */
const TRANSACTION_MAX_PART = 1 / 4;
const SAMPLE_MS = 5;
const PUBLISH_EVERY_MS = 20;

const revenue = await startRevenue();
const { sql, addStore, publish, round } = revenue;

/** Samples the age of the oldest transaction of this database until it is stopped; returns the maximum. */
function watchTransactions() {
  const stopping = new AbortController();
  const watch = async (): Promise<number> => {
    let longestMs = 0;
    while (!stopping.signal.aborted) {
      const [row] = await sql<{ ms: number | null }[]>`
        select max(extract(epoch from clock_timestamp() - xact_start) * 1000)::float8 as ms from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`;
      longestMs = Math.max(longestMs, row?.ms ?? 0);
      await delay(SAMPLE_MS);
    }
    return longestMs;
  };
  const watching = watch();
  return async () => {
    stopping.abort();
    return Math.round(await watching);
  };
}

/** Publishes one version after the other until the work is done; returns the duration of the slowest. */
async function publishMeanwhile(storeId: number, text: string, work: Promise<unknown>): Promise<number> {
  const publishes: number[] = [];
  const isDone = () => Promise.race([work.then(() => true), delay(PUBLISH_EVERY_MS, false)]);
  do {
    const sinceMs = performance.now();
    await publish(storeId, text, euros('meanwhile', publishes.length));
    publishes.push(performance.now() - sinceMs);
  } while (!(await isDone()));
  return Math.round(Math.max(...publishes));
}

test('100,000 subscriptions are counted in short transactions, while publishes succeed', async (t) => {
  const store = await addStore('UTC');
  await publish(store, '2027-01-01T10:00:00Z', euros('first', 1));
  await sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    select ${shardOf(store)}, ${store}, 's' || n, date '2027-01-01' + k, (array['EUR', 'USD'])[1 + n % 2], n % 100 + k, true
    from generate_series(1, ${SUBSCRIPTIONS}::int) n, generate_series(1, ${TERMS_EACH}::int) k`;
  assert.equal(await round(store, '2027-01-04T00:10:00Z'), 3);
  const stop = watchTransactions();
  const startedMs = performance.now();
  const reported = round(store, '2027-01-05T00:10:00Z');
  const slowest = await publishMeanwhile(store, '2027-01-05T00:10:00Z', reported);
  assert.equal(await reported, 1);
  const tookMs = Math.round(performance.now() - startedMs);
  const longestMs = await stop();
  t.diagnostic(`total ${tookMs} ms, longest transaction ${longestMs} ms, slowest publish ${slowest} ms`);
  const last = (await snapshotsOf(revenue, store)).at(-1);
  assert.deepEqual(
    last?.currencies.map(({ currency_code, active_count, mrr }) => [currency_code, active_count, mrr]),
    [
      ['EUR', SUBSCRIPTIONS / 2 + 1, (SUBSCRIPTIONS / 2) * (49 + TERMS_EACH) + 1],
      ['USD', SUBSCRIPTIONS / 2, (SUBSCRIPTIONS / 2) * (50 + TERMS_EACH)],
    ],
  );
  assert.ok(longestMs < tookMs * TRANSACTION_MAX_PART, `a transaction took ${longestMs} of ${tookMs} ms`);
  assert.ok(slowest < tookMs * TRANSACTION_MAX_PART, `a publish took ${slowest} of ${tookMs} ms`);
});

test('five hundred stores with the same midnight are reported one after the other, without delaying publishes', async (t) => {
  // The store before would be counted for a whole year.
  await sql`delete from revenue_book`;
  const store = await addStore('Europe/Berlin');
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    select n % ${SHARDS}, (1000000 + n / ${SHARDS}) * ${SHARDS}::bigint + n % ${SHARDS}, 'S', 's' || n || '.example.com', 's@example.com',
      'Europe/Berlin', now(), now()
    from generate_series(1, ${STORES}::int) n`;
  await sql`
    insert into revenue_book (shard, store_id, open_day, next_day, due_at)
    select shard, id, '2028-01-01', '2028-01-01', '2028-01-01T23:10:00Z' from store where id >= 1000000 * ${SHARDS}::bigint`;
  await sql`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    select shard, store_id, 's' || n, '2028-01-01', 'EUR', 10, true from revenue_book, generate_series(1, 5) n
    where next_day = '2028-01-01'`;
  await publish(store, '2028-01-01T10:00:00Z', euros('a', 1));
  await sql`analyze store, revenue_book, subscription_term`;
  const stop = watchTransactions();
  const startedMs = performance.now();
  const shards = () => Array.from({ length: SHARDS }, (_, shard) => shard);
  const reported = round(store, '2028-01-01T23:10:00Z', { shards });
  const slowest = await publishMeanwhile(store, '2028-01-01T23:10:00Z', reported);
  const made = await reported;
  const tookMs = Math.round(performance.now() - startedMs);
  t.diagnostic(
    `${made} snapshots in ${tookMs} ms, longest transaction ${await stop()} ms, slowest publish ${slowest} ms`,
  );
  const [row] = await sql<{ n: number }[]>`select count(*) as n from revenue_day where day = '2028-01-01'`;
  assert.equal(row?.n, STORES + 1);
  assert.ok(slowest < tookMs * TRANSACTION_MAX_PART, `a publish took ${slowest} of ${tookMs} ms`);
});
