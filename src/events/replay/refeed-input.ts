/** Parses and validates a refeed request. */
import { Type, type Static } from 'typebox';
import { eventsOf, type ResourceType } from '#catalog/catalog.ts';
import { clearableText, type Hints } from '#http/inputs.ts';
import type { Fault } from '#core/problem.ts';
import type { RefeedRow } from './refeed-sql.ts';

/** Action of refeed events, to which webhooks cannot subscribe. */
export const REFEED = 'refeed';

/** The limit of webhooks per store. */
const WEBHOOKS_MAX = 100;
const EVENT_LENGTH_MAX = 100;

const hooks = (hints: Hints) =>
  Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), { maxItems: WEBHOOKS_MAX, ...hints }),
  );

export const refeedSchema = Type.Object(
  {
    webhooks: hooks({
      description: 'Ids of the webhooks to send to. Default: all active webhooks for this type of resource.',
    }),
    event: clearableText({
      maxLength: EVENT_LENGTH_MAX,
      description:
        'Sends only to webhooks that subscribe to this event, such as transaction/captured. The event sent is a refeed in any case.',
    }),
    refeed_hooks: hooks({ isOtherName: true, description: 'Alias of webhooks for existing clients.' }),
  },
  { additionalProperties: false },
);

export type RefeedBody = Static<typeof refeedSchema>;

/** `field`: the member that lists the webhooks. `webhooks`: null for all webhooks of the resource type. */
export type RefeedInput = { field: string; webhooks: readonly number[] | null; sentFor: string | null };

export function readRefeedInput(
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
  const refeed = `${type}/${REFEED}`;
  const knownEvents = [...eventsOf(type), refeed];
  if (event && !knownEvents.includes(event)) fail('event', `event must be one of: ${knownEvents.join(', ')}`);
  const sentFor = event && event !== refeed ? event : null;
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
export function webhookFaults(
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
