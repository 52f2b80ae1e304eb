/**
 * Stores with recurring revenue at any time: publishes name their time, and the job has a manual clock. One partition of events
 * covers all these years.
 */
import { Registry } from '@prometheus-io/client';
import { timeZonesOf } from '#catalog/catalog-sql.ts';
import { createNumbers, partitionsOf, createIdAllocator, type IdAllocator } from '#db/partitions.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { loadItems } from '#events/load/load.ts';
import { rescheduleSnapshot, runRound, type SnapshotDeps } from '#events/snapshots.ts';
import { createInternalEventWriter } from '#events/publish/internal-event.ts';
import { createPublishMetrics, createPublisher } from '#events/publish/publish.ts';
import { createLog } from '#core/log.ts';
import { dayOf, firstIdOfDay, SHARDS, shardOf } from '#core/ids.ts';
import { createStore } from '#stores/store.ts';
import { testDatabase } from './database.ts';
import { cleanups } from './cleanups.ts';

export type Snapshot = {
  date: string;
  currencies: {
    currency_code: string;
    mrr: number;
    active_count: number;
    new: number;
    expansion: number;
    contraction: number;
    churn: number;
    reactivation: number;
  }[];
};

const YEARS = [new Date('2027-01-01T00:00:00Z'), new Date('2036-01-01T00:00:00Z')] as const;
const baseUrl = 'http://localhost:8080';

/** `statementMs` 0 is no limit, because a statement may wait for a lock for as long as the test does. */
const settings = { everyMs: 10, storesPerBatch: 100, termsPerChunk: 10_000, statementMs: 0 };

/** Replaces the daily partitions around today, which overlap these years at some point. */
async function addYears(sql: Sql): Promise<void> {
  const days = (await partitionsOf(sql)).filter(({ parent }) => parent === 'event');
  await sql`drop table ${sql(days.map(({ name }) => name))}`;
  const [from, to] = YEARS.map((at) => firstIdOfDay(dayOf(at)));
  await sql.unsafe(`create table event_years partition of event for values from (${from}) to (${to})`);
}

async function addNumbers(sql: Sql, day: number): Promise<void> {
  for (const parent of ['event', 'delivery_done']) await createNumbers(sql, { parent, name: 'event_years', day });
}

/** Allocates ids for the days of `event_years`. */
function createDailyAllocator(sql: Sql): IdAllocator {
  const allocateIds = createIdAllocator();
  const numbered = new Map<number, Promise<void>>();
  return async (on, wanted, inTransaction) => {
    const { day } = wanted;
    if (!numbered.has(day)) numbered.set(day, addNumbers(sql, day));
    await numbered.get(day);
    return allocateIds(on, wanted, inTransaction);
  };
}

export async function startRevenue() {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await addYears(sql);
  let now: Date = YEARS[0];
  const clock = { now: () => now, monotonicMs: () => performance.now() };
  const log = createLog('silent');
  const allocateIds = createDailyAllocator(sql);
  const common = { sql, allocateIds, baseUrl };
  const publisher = createPublisher({
    ...common,
    metrics: createPublishMetrics(new Registry()),
    batchRows: 500,
    batchBytes: 4 * 1024 * 1024,
    batchesAtOnce: 4,
    waitingBytes: 64 * 1024 * 1024,
    onCommitted: () => {},
    onUnknown: () => {},
  });
  /** Creates the job of another process, with its own ids. */
  const deps = (given: Partial<SnapshotDeps> = {}): SnapshotDeps => ({
    sql,
    clock,
    log,
    writeInternalEvents: createInternalEventWriter({ allocateIds, baseUrl, announce: async () => {} }),
    shards: () => Array.from({ length: SHARDS }, (_, shard) => shard),
    settings,
    ...given,
  });
  const own = deps();
  const at = (text: string): void => void (now = new Date(text));
  return {
    sql,
    ends,
    settings,
    deps,
    at,
    addStore: async (timeZone: string): Promise<number> => {
      const details = { name: 'Store', domain: 'store.example.com', email: 'a@example.com', timeZone };
      return (await createStore(sql, { ...details, now })).id;
    },
    moveStore: (storeId: number, timeZone: string) =>
      transaction(sql, async (tx) => {
        const shard = shardOf(storeId);
        await tx`update store set time_zone = ${timeZone} where shard = ${shard} and id = ${storeId}`;
        await rescheduleSnapshot(tx, { shard, storeId });
      }),
    /** Publishes versions of subscriptions at that time. */
    publish: (storeId: number, text: string, ...resources: readonly ({ id: string } & Record<string, unknown>)[]) => {
      at(text);
      const events = resources.map((resource) => ({
        type: 'subscription' as const,
        action: 'modified',
        resourceId: resource.id,
        modifiedAt: null,
        body: JSON.stringify(resource),
      }));
      return publisher({ storeId, events, now });
    },
    /** Loads versions of subscriptions at that time; returns the results. */
    load: async (
      storeId: number,
      text: string,
      ...resources: readonly ({ id: string } & Record<string, unknown>)[]
    ) => {
      at(text);
      const items = resources.map((resource, index) => ({
        line: index + 1,
        size: 0,
        read: () => ({ type: 'subscription', resource }),
      }));
      const limits = { eventsPerRequest: 1_000, eventLimitBytes: 256 * 1024, eventDepth: 12 };
      const timeZone = (await timeZonesOf(sql, [storeId])).get(storeId) ?? 'UTC';
      return loadItems({ sql, baseUrl, limits }, { storeId, items, timeZone, now, isDryRun: false });
    },
    /** Runs the job at that time for the shard of the store; returns the number of snapshots. */
    round: (storeId: number, text: string, given?: Partial<SnapshotDeps>): Promise<number> => {
      at(text);
      return runRound({ ...own, shards: () => [shardOf(storeId)], ...given });
    },
    /** Returns the JSON texts of a store's snapshots, the oldest first. */
    texts: async (storeId: number): Promise<string[]> => {
      const rows = await sql<{ body: string }[]>`
        select body from event
        where shard = ${shardOf(storeId)} and store_id = ${storeId} and resource_type = 'subscription_mrr_snapshot'
        order by id`;
      return rows.map(({ body }) => body);
    },
  };
}

export type Revenue = Awaited<ReturnType<typeof startRevenue>>;

export async function snapshotsOf(revenue: Revenue, storeId: number): Promise<Snapshot[]> {
  return (await revenue.texts(storeId)).map((text) => JSON.parse(text) as Snapshot);
}

/** Returns an active subscription with this amount: `euros('a', 10)`. */
export function euros(id: string, total_order: number | string, more: Record<string, unknown> = {}) {
  return {
    id,
    frequency: '1m',
    is_active: true,
    currency_code: 'EUR',
    _embedded: { 'svc:transaction_template': { total_order } },
    ...more,
  };
}
