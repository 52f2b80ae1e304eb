/** Sending a resource to webhooks again: its latest version, as an event of its own. */
import { noSuch, resourceKeyOf } from '#catalog/access.ts';
import { eventsOf, wordsOf } from '#catalog/catalog.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import type { Tx } from '#db/pool.ts';
import { beginning } from '#http/creating.ts';
import type { Operation } from '#http/operation.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { invalid, Problem } from '#core/problem.ts';
import type { IdAllocator } from '../publish/id-allocator.ts';
import { nextNonce, numberAt, type Committed } from '../publish/rows.ts';
import { addressOfEvent, eventDocument } from '../document.ts';
import type { PublishMetrics } from '../metrics.ts';
import type { PublishedEvent } from '../publish/publish.ts';
import { insertRefeed, type RefeedRow } from './refeed-sql.ts';
import { hindrances, readWish, REFEED, refeedSchema, type RefeedWish } from './refeed-input.ts';

export type RefeedDeps = {
  allocateIds: IdAllocator;
  baseUrl: string;
  metrics: Pick<PublishMetrics, 'written'>;
  /** Told of every delivery after its commit. */
  onCommitted: (deliveries: readonly Committed[]) => void;
};

/** 409: all is well with the request, and nobody would get anything. */
const nobody = (type: ResourceKey['type'], sentFor: string | null): Problem => {
  const what = sentFor === null ? `a ${wordsOf(type)}` : sentFor;
  const message = `Nothing to send: no active webhook of this store with a url or a listener is sent ${what}. There are: ${eventsOf(type).join(', ')}`;
  return new Problem(409, { code: 'nothing_to_send', message });
};

type Refeed = { key: ResourceKey; eventId: number; nonce: number; now: Date };

const committedOf = ({ key, eventId, nonce, now }: Refeed, rows: readonly RefeedRow[]): Committed[] => {
  const { shard, storeId, type, id: resourceId } = key;
  const body = rows.find((row) => row.body !== null)?.body ?? '';
  return rows.flatMap(({ version, baseUrl, webhookId, epoch, isHeld, deliveryId }) => {
    if (webhookId === null || deliveryId === null) return [];
    const event = { id: eventId, type, resourceId, action: REFEED, version, nonce, baseUrl, body };
    return [{ shard, deliveryId, storeId, webhookId, epoch, isHeld, dueAt: now, event }];
  });
};

/** All of it or nothing. Throws a 404 where there is no such resource, a 400 for webhooks it cannot go to, a 409 where it goes to none. */
const refeed = async (
  tx: Tx,
  allocateIds: IdAllocator,
  { key, wish, now }: { key: ResourceKey; wish: RefeedWish; now: Date },
): Promise<{ event: PublishedEvent; deliveries: Committed[] }> => {
  const { shard, type, id: resourceId } = key;
  const day = dayOf(now);
  const numbers = await allocateIds(tx, { day, shards: [shard] }, 'inTransaction');
  const made = { key, eventId: dailyIdOf(day, numberAt(numbers, 0), shard), nonce: nextNonce(), now };
  const { eventId, nonce } = made;
  const rows = await insertRefeed(tx, { ...key, ...wish, eventId, nonce, action: REFEED, day, now });
  const [first] = rows;
  if (first === undefined) throw noSuch(type);
  const faults = hindrances(rows, wish, type);
  if (faults.length > 0) throw invalid(...faults);
  const deliveries = committedOf(made, rows);
  if (deliveries.length === 0) throw nobody(type, wish.sentFor);
  const { version, timeZone } = first;
  return { event: { id: eventId, type, resourceId, action: REFEED, version, timeZone, dateCreated: now }, deliveries };
};

export const createRefeed = ({ allocateIds, baseUrl, metrics, onCommitted }: RefeedDeps): Operation =>
  beginning({
    title: 'Send it again',
    summary:
      'Sends the latest version of this resource again, to the webhooks that are named or to all that are for such resources',
    input: refeedSchema,
    admit: async (request) => void resourceKeyOf(request),
    review: async (request) => readWish(request.body, resourceKeyOf(request).type).faults,
    prepare: async (request) => {
      const key = resourceKeyOf(request);
      const { wish, faults } = readWish(request.body, key.type);
      if (faults.length > 0) throw invalid(...faults);
      return { key, wish };
    },
    make: async (tx, { now }, { key, wish }) => {
      const { event, deliveries } = await refeed(tx, allocateIds, { key, wish, now });
      return {
        document: eventDocument(event, key.storeId, baseUrl),
        location: addressOfEvent(event, baseUrl, key.storeId),
        made: async () => {
          metrics.written({ events: 1, deliveries: deliveries.length });
          onCommitted(deliveries);
        },
      };
    },
  });
