/** The API operation that sends the latest version of a resource to webhooks again, as a new event. */
import { isVisible, resourceNotFound, resourceKeyOf } from '#catalog/access.ts';
import { eventsOf, labelOf } from '#catalog/catalog.ts';
import { findResource, type ResourceKey } from '#catalog/catalog-sql.ts';
import { payloadOf } from '#catalog/payload-filter.ts';
import type { Tx } from '#db/pool.ts';
import { beginning } from '#http/creating.ts';
import type { Operation } from '#http/operation.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { callingApp, type Principal } from '#core/principal.ts';
import { invalid, Problem } from '#core/problem.ts';
import type { IdAllocator } from '../publish/batch.ts';
import { nextNonce, numberAt, type Committed } from '../publish/rows.ts';
import { addressOfEvent, eventDocument } from '../document.ts';
import type { PublishMetrics } from '../metrics.ts';
import type { PublishedEvent } from '../publish/publish.ts';
import { busyIfUnknownFilter, readFilters } from '../publish/filters.ts';
import { insertRefeed, lockFiltered, type NewRefeed, type RefeedRow } from './refeed-sql.ts';
import { webhookFaults, readRefeedInput, REFEED, refeedSchema, type RefeedInput } from './refeed-input.ts';

export type RefeedDeps = {
  allocateIds: IdAllocator;
  baseUrl: string;
  metrics: Pick<PublishMetrics, 'written'>;
  /** Called with the deliveries after their commit. */
  onCommitted: (deliveries: readonly Committed[]) => void;
};

/** Returns the 409 for a valid request that no webhook would receive. */
function noRecipient(type: ResourceKey['type'], sentFor: string | null): Problem {
  const eventName = sentFor === null ? `a ${labelOf(type)}` : sentFor;
  const message = `No active webhook of this store with a url or a pull client subscribes to ${eventName}, or the filters exclude it. Events: ${eventsOf(type).join(', ')}`;
  return new Problem(409, { code: 'nothing_to_send', message });
}

type Refeed = { key: ResourceKey; eventId: number; nonce: number; now: Date };

function committedOf({ key, eventId, nonce, now }: Refeed, rows: readonly RefeedRow[]): Committed[] {
  const { shard, storeId, type, id: resourceId } = key;
  const body = rows.find((row) => row.body !== null)?.body ?? '';
  return rows.flatMap(({ version, baseUrl, webhookId, epoch, isHeld, deliveryId }) => {
    if (webhookId === null || deliveryId === null) return [];
    const event = { id: eventId, type, resourceId, action: REFEED, version, nonce, baseUrl, dateCreated: now, body };
    return [{ shard, deliveryId, storeId, webhookId, epoch, isHeld, dueAt: now, event }];
  });
}

/** Evaluates the filters of the webhooks for the latest version of the resource, which stays locked. */
async function evaluate(tx: Tx, key: ResourceKey): Promise<NewRefeed['filters']> {
  const version = await lockFiltered(tx, key);
  if (version === undefined) return { known: [], passed: [] };
  const filters =
    (await readFilters(tx, [key.storeId])).get(key.storeId)?.filter(({ type }) => type === key.type) ?? [];
  const payload = payloadOf(version);
  const passed = filters.filter(({ passes }) => passes(payload));
  return { known: filters.map(({ id }) => id), passed: passed.map(({ id }) => id) };
}

/**
 * Publishes the refeed. Throws a 404 if the resource does not exist or the caller does not see it, a 400 for listed webhooks that cannot
 * receive it, a 409 if no webhook receives it.
 */
async function refeed(
  tx: Tx,
  allocateIds: IdAllocator,
  { key, input, principal, now }: { key: ResourceKey; input: RefeedInput; principal: Principal; now: Date },
): Promise<{ event: PublishedEvent; deliveries: Committed[] }> {
  const { shard, type, id: resourceId } = key;
  const about = type === 'app' ? await findResource(tx, key) : undefined;
  if (about !== undefined && !isVisible(principal, { type, body: about.body })) throw resourceNotFound(type);
  const day = dayOf(now);
  const numbers = await allocateIds(tx, { day, shards: [shard] }, 'inTransaction');
  const made = { key, eventId: dailyIdOf(day, numberAt(numbers, 0), shard), nonce: nextNonce(), now };
  const { eventId, nonce } = made;
  const filters = await evaluate(tx, key);
  const sender = { app: callingApp(principal)?.id ?? null, isOwner: principal.owned.includes(key.storeId) };
  const row = { ...key, ...input, filters, sender, eventId, nonce, action: REFEED, day, now };
  const rows = await insertRefeed(tx, row).catch(busyIfUnknownFilter);
  const [first] = rows;
  if (first === undefined) throw resourceNotFound(type);
  const faults = webhookFaults(rows, input, type);
  if (faults.length > 0) throw invalid(...faults);
  const deliveries = committedOf(made, rows);
  if (deliveries.length === 0) throw noRecipient(type, input.sentFor);
  const { version, timeZone } = first;
  return { event: { id: eventId, type, resourceId, action: REFEED, version, timeZone, dateCreated: now }, deliveries };
}

export function createRefeed({ allocateIds, baseUrl, metrics, onCommitted }: RefeedDeps): Operation {
  return beginning({
    title: 'Send again',
    summary:
      'Sends the latest version of this resource again, to the listed webhooks or to all webhooks for this type of resource',
    scopes: ['webhooks'],
    input: refeedSchema,
    admit: async (request) => void resourceKeyOf(request),
    review: async (request) => readRefeedInput(request.body, resourceKeyOf(request).type).faults,
    prepare: async (request) => {
      const key = resourceKeyOf(request);
      const { input, faults } = readRefeedInput(request.body, key.type);
      if (faults.length > 0) throw invalid(...faults);
      return { key, input };
    },
    make: async (tx, { principal, now }, { key, input }) => {
      const { event, deliveries } = await refeed(tx, allocateIds, { key, input, principal, now });
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
}
