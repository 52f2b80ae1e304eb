/** The API operation that sends the latest version of a resource to webhooks again, as a new event. */
import { Type, type Static } from 'typebox';
import { isVisible, resourceMissing, resourceNotFound, resourceKeyOf } from '#catalog/resource-operations.ts';
import { eventsOf, labelOf, type ResourceType } from '#catalog/catalog.ts';
import { findResource, type ResourceKey } from '#catalog/catalog-sql.ts';
import { payloadOf } from '#catalog/payload-filter.ts';
import type { Tx } from '#db/pool.ts';
import { beginning } from '#http/idempotency.ts';
import type { Operation } from '#http/operation.ts';
import { dayOf } from '#core/ids.ts';
import { callingApp, type Principal } from '#core/principal.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { closedObject, clearableText, type Hints } from '#http/inputs.ts';
import type { IdAllocator } from '#db/partitions.ts';
import { idAt, nextNonce, type Committed } from '../publish/rows.ts';
import { addressOfEvent, eventDocument } from '../operations.ts';
import type { PublishMetrics, PublishedEvent } from '../publish/publish.ts';
import { busyIfUnknownFilter, readFilters, type BatchDeps } from '../publish/publish-batch.ts';
import { insertRefeed, lockFiltered, type NewRefeed, type RefeedRow } from './replay-sql.ts';

/** Action of refeed events, to which webhooks cannot subscribe. */
export const REFEED = 'refeed';

/** The limit of webhooks per store. */
const WEBHOOKS_MAX = 100;
const EVENT_LENGTH_MAX = 100;

const hooks = (hints: Hints) =>
  Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), { maxItems: WEBHOOKS_MAX, ...hints }),
  );

const refeedSchema = closedObject({
  webhooks: hooks({
    description: 'Ids of the webhooks to send to. Default: all active webhooks for this type of resource.',
  }),
  event: clearableText({
    maxLength: EVENT_LENGTH_MAX,
    description:
      'Sends only to webhooks that subscribe to this event, such as transaction/captured. The event sent is a refeed in any case.',
  }),
  refeed_hooks: hooks({ isOtherName: true, description: 'Alias of webhooks for existing clients.' }),
});

type RefeedBody = Static<typeof refeedSchema>;

/** `field`: the member that lists the webhooks. `webhooks`: null for all webhooks of the resource type. */
type RefeedInput = { field: string; webhooks: readonly number[] | null; sentFor: string | null };

function readRefeedInput(
  { webhooks, refeed_hooks: refeedHooks, event }: Partial<RefeedBody>,
  type: ResourceType,
): { input: RefeedInput; faults: Fault[] } {
  const faults: Fault[] = [];
  const fail = (field: string, message: string) => void faults.push({ code: 'invalid_value', message, field });
  const field = refeedHooks === undefined ? 'webhooks' : 'refeed_hooks';
  const listed = refeedHooks ?? webhooks;
  if (webhooks !== undefined && refeedHooks !== undefined)
    fail(field, 'refeed_hooks is an alias of webhooks: send one of the two');
  // An empty list must not mean all webhooks.
  if (listed?.length === 0)
    fail(field, `${field} must list at least one webhook; omit it to send to all webhooks for ${type}s`);
  const refeedEvent = `${type}/${REFEED}`;
  const knownEvents = [...eventsOf(type), refeedEvent];
  if (event && !knownEvents.includes(event)) fail('event', `event must be one of: ${knownEvents.join(', ')}`);
  const sentFor = event && event !== refeedEvent ? event : null;
  return { input: { field, webhooks: listed === undefined ? null : [...new Set(listed)], sentFor }, faults };
}

/** Returns why the webhook cannot receive the refeed; the first reason that its owner would have to fix. */
function reasonNotSent(row: RefeedRow | undefined, type: ResourceType, sentFor: string | null): string {
  if (row === undefined) return 'is not a webhook of this store';
  if (row.eventResource !== type) {
    return row.eventResource === null
      ? 'has no events and so no resource type'
      : `is for a ${row.eventResource}, not for a ${type}`;
  }
  if (!row.isActive) return 'is disabled: enable it first';
  if (!row.hasUrl) return 'has no url';
  return row.isSubscribed ? 'has a filter that this resource does not pass' : `does not subscribe to ${sentFor}`;
}

/** Returns one fault for each listed webhook that cannot receive the refeed. */
function webhookFaults(
  rows: readonly RefeedRow[],
  { field, webhooks, sentFor }: RefeedInput,
  type: ResourceType,
): Fault[] {
  const byId = new Map(rows.map((row) => [row.webhookId, row]));
  return (webhooks ?? []).flatMap((id): Fault[] => {
    const row = byId.get(id);
    if (row !== undefined && row.deliveryId !== null) return [];
    const message = `${field}: ${id} ${reasonNotSent(row, type, sentFor)}`;
    return [{ code: 'invalid_value', message, field }];
  });
}

export type RefeedDeps = Pick<BatchDeps, 'allocateIds' | 'baseUrl' | 'onCommitted'> & {
  metrics: Pick<PublishMetrics, 'written'>;
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
    const event = {
      id: eventId,
      type,
      resourceId,
      action: REFEED,
      version,
      nonce,
      baseUrl,
      dateCreated: now,
      body,
      traceContext: null,
    };
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

type Selected = Pick<NewRefeed, 'webhooks' | 'sentFor' | 'sender' | 'isOfLoaded' | 'now'> & { key: ResourceKey };

/**
 * Writes a refeed of the latest version of a resource, and its deliveries to the selected webhooks. Returns no rows if the resource does
 * not exist or is deleted.
 */
export async function writeRefeed(
  tx: Tx,
  allocateIds: IdAllocator,
  { key, now, ...selected }: Selected,
): Promise<{ made: Refeed; rows: RefeedRow[] }> {
  const day = dayOf(now);
  const ids = await allocateIds(tx, { day, shards: [key.shard] }, 'inTransaction');
  const made = { key, eventId: idAt(ids, 0), nonce: nextNonce(), now };
  const { eventId, nonce } = made;
  const filters = await evaluate(tx, key);
  const row = { ...key, ...selected, filters, eventId, nonce, action: REFEED, day, now };
  return { made, rows: await insertRefeed(tx, row).catch(busyIfUnknownFilter) };
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
  const { type, id: resourceId } = key;
  const about = type === 'app' ? await findResource(tx, key) : undefined;
  if (about !== undefined && !isVisible(principal, { type, body: about.body })) throw resourceNotFound(type);
  const sender = { app: callingApp(principal)?.id ?? null, isOwner: principal.owned.includes(key.storeId) };
  const { made, rows } = await writeRefeed(tx, allocateIds, { key, ...input, sender, isOfLoaded: false, now });
  const [first] = rows;
  if (first === undefined) throw await resourceMissing(tx, key);
  const faults = webhookFaults(rows, input, type);
  if (faults.length > 0) throw invalid(...faults);
  const deliveries = committedOf(made, rows);
  if (deliveries.length === 0) throw noRecipient(type, input.sentFor);
  const { version, timeZone } = first;
  return {
    event: { id: made.eventId, type, resourceId, action: REFEED, version, timeZone, dateCreated: now },
    deliveries,
  };
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
