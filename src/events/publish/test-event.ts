/** Makes sample events for test deliveries: `<resource>/test`, with generated data that is marked as a sample. */
import { bareKindOf, declarationOf, isInternal, type ResourceType, testAction } from '#catalog/catalog.ts';
import type { FrozenEvent } from '#catalog/resource-document.ts';
import { sampleResource } from '#catalog/sample.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { IdAllocator } from '#db/partitions.ts';
import { idAt, nextNonce } from './rows.ts';
import { insertPullSample, insertSample } from './publish-sql.ts';

/** Id of sample resources whose ids publishers assign: unlikely in real data, and below 2^32. */
export const SAMPLE_ID = 999_999_999;

export type SampleEvent = FrozenEvent & { storeId: number; timeZone: string };

export type Samples = {
  /**
   * Makes a sample event without writing it. `action`: the action it is sent under, such as `created`; null for `test`. `clientId`: the
   * app that a sample of `app` names; null for one that does not exist.
   */
  make: (about: {
    storeId: number;
    clientId: string | null;
    type: ResourceType;
    action: string | null;
    timeZone: string;
    now: Date;
  }) => Promise<SampleEvent>;
  /** Writes the event. Throws a 404 if the store does not exist. */
  keep: (tx: Queryable, event: SampleEvent) => Promise<void>;
  /**
   * Writes the event and a delivery for the webhook's pull client. Returns the id of the delivery; undefined if the webhook
   * does not exist.
   */
  insertForPull: (tx: Queryable, event: SampleEvent, webhookId: number) => Promise<number | undefined>;
};

/** Internal events share their id with their resource. */
const idOf = (type: ResourceType, eventId: number): number =>
  isInternal(type) || type === 'subscription_event' ? eventId : SAMPLE_ID;

const keep: Samples['keep'] = async (tx, event) => {
  if (!(await insertSample(tx, event, shardOf(event.storeId)))) throw notFound('store');
};

export function createSamples({
  sql,
  allocateIds,
  baseUrl,
}: {
  sql: Sql;
  allocateIds: IdAllocator;
  baseUrl: string;
}): Samples {
  return {
    make: async ({ storeId, clientId, type, action, timeZone, now }) => {
      const eventId = idAt(await allocateIds(sql, { day: dayOf(now), shards: [shardOf(storeId)] }), 0);
      const { id: shownId, ...sample } = sampleResource(type);
      const isBare = action !== null && bareKindOf(type, action) !== undefined;
      const { _embedded, ...properties } = isBare ? {} : sample;
      const id = idOf(type, eventId);
      // The schema of the operator may allow texts only as ids, and another format of dates.
      const isOfOperator = declarationOf(type)?.example !== undefined;
      const dates = Object.fromEntries(
        ['date_created', 'date_modified']
          .filter((name) => name in properties && !isOfOperator)
          .map((name) => [name, formatDate(now, timeZone)]),
      );
      const named = type === 'app' ? { store_id: storeId, ...(clientId !== null && { client_id: clientId }) } : {};
      return {
        id: eventId,
        storeId,
        type,
        resourceId: String(id),
        action: testAction(action),
        // It is not a version of any resource.
        version: 0,
        nonce: nextNonce(),
        baseUrl,
        body: JSON.stringify({
          id: typeof shownId === 'string' ? String(id) : id,
          is_sample: true,
          ...properties,
          ...dates,
          ...named,
          _embedded,
        }),
        traceContext: null,
        timeZone,
        dateCreated: now,
      };
    },
    keep,
    insertForPull: async (tx, event, webhookId) => {
      await keep(tx, event);
      return insertPullSample(tx, { shard: shardOf(event.storeId), webhookId, event, day: dayOf(event.dateCreated) });
    },
  };
}
