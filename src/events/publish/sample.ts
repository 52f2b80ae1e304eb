/** An event that did not happen, for a webhook that is being tested: `<resource>/test`, made up and marked as such. */
import { isInternal, type ResourceType } from '#catalog/catalog.ts';
import type { FrozenEvent } from '#catalog/document.ts';
import { sampleResource, testAction } from '#catalog/sample.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { IdAllocator } from './id-allocator.ts';
import { nextNonce, numberAt } from './rows.ts';
import { holdSample, insertSample } from './sample-sql.ts';

/** Of a resource whose id is the publisher's: one that is hardly anybody's, and that 32 bits hold. */
const SAMPLE_ID = 999_999_999;

export type SampleEvent = FrozenEvent & { storeId: number; timeZone: string; dateCreated: Date };

export type Samples = {
  /** Nothing is written yet. `action`: under whose name it goes out, `created`; null for `test`. */
  make: (about: {
    storeId: number;
    type: ResourceType;
    action: string | null;
    timeZone: string;
    now: Date;
  }) => Promise<SampleEvent>;
  /** Throws a 404 where the store is gone. */
  keep: (tx: Queryable, event: SampleEvent) => Promise<void>;
  /** Keeps it, and holds a delivery of it for the webhook's listener; answers the delivery's id, undefined where the webhook is gone. */
  hold: (tx: Queryable, event: SampleEvent, webhookId: number) => Promise<number | undefined>;
};

/** Halcyon's own share the number of their event. */
const idOf = (type: ResourceType, eventId: number): number =>
  isInternal(type) || type === 'subscription_event' ? eventId : SAMPLE_ID;

const keep: Samples['keep'] = async (tx, event) => {
  if (!(await insertSample(tx, event, shardOf(event.storeId)))) throw notFound('store');
};

export const createSamples = ({
  sql,
  allocateIds,
  baseUrl,
}: {
  sql: Sql;
  allocateIds: IdAllocator;
  baseUrl: string;
}): Samples => ({
  make: async ({ storeId, type, action, timeZone, now }) => {
    const [day, shard] = [dayOf(now), shardOf(storeId)];
    const eventId = dailyIdOf(day, numberAt(await allocateIds(sql, { day, shards: [shard] }), 0), shard);
    const { id: _, _embedded, ...told } = sampleResource(type);
    const id = idOf(type, eventId);
    const dates = Object.fromEntries(
      ['date_created', 'date_modified'].filter((name) => name in told).map((name) => [name, formatDate(now, timeZone)]),
    );
    return {
      id: eventId,
      storeId,
      type,
      resourceId: String(id),
      action: testAction(action),
      // It never was the latest of anything.
      version: 0,
      nonce: nextNonce(),
      baseUrl,
      body: JSON.stringify({ id, is_sample: true, ...told, ...dates, _embedded }),
      timeZone,
      dateCreated: now,
    };
  },
  keep,
  hold: async (tx, event, webhookId) => {
    await keep(tx, event);
    return holdSample(tx, { shard: shardOf(event.storeId), webhookId, event, day: dayOf(event.dateCreated) });
  },
});
