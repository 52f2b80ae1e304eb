/** The real API without delivery, and shard owners whose recovery steps a test calls one by one. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { nextEventBlock, createIdAllocator } from '#db/partitions.ts';
import { announceWork } from '#delivery/announce.ts';
import { publishBatch } from '#events/publish/publish-sql.ts';
import { rowOf, toBatchRows } from '#events/publish/rows.ts';
import {
  createRecoveryMetrics,
  countMissed,
  Recoveries,
  type MissedCount,
  type RecoveriesDeps,
} from '#events/replay/recoveries.ts';
import { findRecoverable } from '#events/replay/recoveries-sql.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { startTestApp } from './app.ts';
import { testDatabase } from './database.ts';
import { openStores, storesOf } from './suite-map.ts';

type Answer = { status: number; location: string; body: Record<string, unknown> };

/** Limits that no test reaches. */
export const SETTINGS = {
  everyMs: 1_000,
  idleEveryMs: 30_000,
  pauseMs: 1,
  retryAfterMs: 30_000,
  dueDeliveriesMax: 1_000,
  pendingDeliveriesMax: 2_000,
  pageDeliveriesMin: 1,
};

const ROUNDS_MAX = 100;

/** Runs steps until all recoveries have ended. */
export async function runOut(owner: Recoveries): Promise<void> {
  for (let rounds = 0; (await owner.round()) > 0; rounds += 1)
    assert.ok(rounds < ROUNDS_MAX, 'a recovery does not end');
}

export async function startRecoveryFixture() {
  const { sql, address } = await testDatabase();
  const app = await startTestApp({ roles: ['serve'], sql });
  const { storeId, api, clock } = app;
  const shard = shardOf(storeId);
  let resource = 0;

  const ask = async (method: string, path: string, options: Parameters<typeof api>[2] = {}): Promise<Answer> => {
    const response = await api(method, path, options);
    const text = await response.text();
    const body = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>;
    return { status: response.status, location: response.headers.get('location') ?? '', body };
  };

  const write = async (event: string, id = (resource += 1)): Promise<number> => {
    const body = { event, resource: { id } };
    const { status, body: made } = await ask('POST', `/stores/${storeId}/events`, { token: app.platformToken, body });
    assert.equal(status, 201);
    return Number(made['id']);
  };

  /** Opens a publish transaction under this name and keeps it uncommitted. */
  const holdPublish = async (applicationName: string) => {
    const publisher = openStores(sql, address, { connections: 1, applicationName });
    after(() => publisher.end({ timeout: 0 }));
    const written = Promise.withResolvers<number>();
    const released = Promise.withResolvers<void>();
    const now = clock.now();
    const committed = publisher.begin(async (tx) => {
      const resourceId = `held-${(resource += 1)}`;
      const event = { type: 'transaction' as const, action: 'created', resourceId, modifiedAt: null, body: '{}' };
      const n = await nextEventBlock(tx, dayOf(now));
      assert.ok(n !== undefined, 'no id is left for today');
      const row = rowOf(event, storeId, { id: dailyIdOf(dayOf(now), n, shardOf(storeId)), at: 0 });
      const filters = { known: [], passed: [] };
      const batch = { filters, claims: [], terms: [], day: dayOf(now), now, baseUrl: app.baseUrl };
      await publishBatch(tx, { rows: toBatchRows([row], now), ...batch });
      written.resolve(row.eventId);
      await released.promise;
    });
    const eventId = await Promise.race([written.promise, committed.then(() => 0)]);
    const commit = async (): Promise<void> => {
      released.resolve();
      await committed;
    };
    return { eventId, commit };
  };

  return {
    sql,
    clock,
    storeId,
    ask,
    holdPublish,
    /** Loads transactions. */
    load: async (resources: readonly Record<string, unknown>[]): Promise<void> => {
      const body = resources.map((one) => ({ type: 'transaction', resource: one }));
      const { body: made } = await ask('POST', `/stores/${storeId}/load`, { token: app.platformToken, body });
      assert.equal(made['loaded'], resources.length, JSON.stringify(made));
    },
    publish: (event = 'transaction/created', id?: number) => write(event, id),
    /** Publishes a transaction event without subscribers, refeeds it to these webhooks, and returns the id of the new event. */
    refeed: async (webhooks: readonly number[]): Promise<number> => {
      await write('transaction/voided');
      const path = `/stores/${storeId}/transactions/${resource}/send_webhooks`;
      const { status, body } = await ask('POST', path, { body: { webhooks } });
      assert.equal(status, 202, JSON.stringify(body));
      return Number(body['id']);
    },
    ownerOf: (given: Partial<RecoveriesDeps> = {}): Recoveries =>
      new Recoveries({
        sql: storesOf(sql),
        clock,
        log: createLog('silent'),
        metrics: createRecoveryMetrics(new Registry()),
        allocateIds: createIdAllocator(),
        announce: announceWork,
        shards: () => [shard],
        changes: () => 0,
        settings: SETTINGS,
        ...given,
      }),
    addWebhook: async (more: Record<string, unknown> = {}): Promise<number> => {
      const url = 'http://127.0.0.1:9/hook';
      const events = ['transaction/created'];
      const hook = { name: 'Orders', format: 'json', encryption_key: 'a key', url, events, ...more };
      const { status, body } = await ask('POST', `/stores/${storeId}/webhooks`, { body: hook });
      assert.equal(status, 201);
      return Number(body['id']);
    },
    change: async (webhook: number, body: Record<string, unknown>): Promise<void> =>
      assert.equal((await ask('PATCH', `/webhooks/${webhook}`, { body })).status, 200),
    recover: async (webhook: number, since: Date, more: Record<string, unknown> = {}): Promise<Answer> => {
      const body = { since: since.toISOString(), ...more };
      const asked = await ask('POST', `/webhooks/${webhook}/recover`, { body });
      assert.equal(asked.status, 202, JSON.stringify(asked.body));
      return asked;
    },
    /** Counts what a recovery of failed deliveries, or of all that was missed, would send. */
    count: async (webhook: number, since: Date, onlyFailed: boolean): Promise<MissedCount> => {
      const key = { shard, webhookId: webhook };
      const found = await findRecoverable(sql, { ...key, event: null });
      assert.ok(found, `no webhook ${webhook}`);
      const whole = { until: null, onlyFailed, resourceId: null, responseCode: null, responseBody: null };
      return countMissed(storesOf(sql), { ...key, storeId, ...found, since, ...whole }, clock.now());
    },
    stateOf: async ({ location }: Answer): Promise<unknown> => (await ask('GET', location)).body['state'],
    /** Returns the events with a pending delivery to the webhook. */
    pending: async (webhook: number): Promise<number[]> => {
      const rows = await sql<{ id: number }[]>`
        select d.event_id as id from delivery d
        join webhook w on w.id = d.webhook_id and w.epoch = d.epoch
        where d.webhook_id = ${webhook} order by d.event_id`;
      return rows.map(({ id }) => id);
    },
    /** Ends a delivery as the module delivery does. */
    finish: (webhook: number, event: number, state: 'successful' | 'failed') => sql`
      with gone as (
        delete from delivery where webhook_id = ${webhook} and event_id = ${event}
        returning shard, id, store_id, webhook_id, event_id
      )
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      select shard, id, store_id, webhook_id, event_id, ${state}, 1, now() from gone`,
  };
}
