/** What a request to send a resource again says, and what is wrong with it. */
import { Type, type Static } from 'typebox';
import { eventsOf, type ResourceType } from '#catalog/catalog.ts';
import { clearableText, type Hints } from '#http/inputs.ts';
import type { Fault } from '#core/problem.ts';
import type { RefeedRow } from './refeed-sql.ts';

/** What such an event is called. Nobody subscribes to it. */
export const REFEED = 'refeed';

/** As many as a store may have. */
const WEBHOOKS_MAX = 100;
const EVENT_LENGTH_MAX = 100;

const hooks = (hints: Hints) =>
  Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), { maxItems: WEBHOOKS_MAX, ...hints }),
  );

export const refeedSchema = Type.Object(
  {
    webhooks: hooks({
      description: 'The ids of those that it is sent to. Without any: all active ones that are for such resources.',
    }),
    event: clearableText({
      maxLength: EVENT_LENGTH_MAX,
      description:
        'Only to webhooks that are sent this, such as transaction/captured. It goes out as a refeed whatever stands here.',
    }),
    refeed_hooks: hooks({ isOtherName: true, description: 'Another name of webhooks, which existing clients know.' }),
  },
  { additionalProperties: false },
);

export type RefeedBody = Static<typeof refeedSchema>;

/** `field` is the member that names the webhooks. `webhooks` null: all that are for the resource. */
export type RefeedWish = { field: string; webhooks: readonly number[] | null; sentFor: string | null };

export const readWish = (
  { webhooks, refeed_hooks: refeedHooks, event }: Partial<RefeedBody>,
  type: ResourceType,
): { wish: RefeedWish; faults: Fault[] } => {
  const faults: Fault[] = [];
  const fail = (field: string, message: string) => void faults.push({ code: 'invalid_value', message, field });
  const field = refeedHooks === undefined ? 'webhooks' : 'refeed_hooks';
  const named = refeedHooks ?? webhooks;
  if (webhooks !== undefined && refeedHooks !== undefined)
    fail(field, 'refeed_hooks is another name of webhooks: send one of the two');
  // A program that found nobody to send to must not reach everybody.
  if (named?.length === 0)
    fail(field, `${field} must name a webhook; leave it out to send to all that are for ${type}s`);
  const refeed = `${type}/${REFEED}`;
  const known = [...eventsOf(type), refeed];
  if (event && !known.includes(event)) fail('event', `event must be one of: ${known.join(', ')}`);
  const sentFor = event && event !== refeed ? event : null;
  return { wish: { field, webhooks: named === undefined ? null : [...new Set(named)], sentFor }, faults };
};

/** What keeps a webhook from being sent it: in the order in which its owner would mend it. */
const hindrance = (row: RefeedRow | undefined, type: ResourceType, sentFor: string | null): string => {
  if (row === undefined) return 'is no webhook of this store';
  if (row.eventResource !== type) {
    return row.eventResource === null
      ? 'has no events, and so no resource'
      : `is for a ${row.eventResource}, not for a ${type}`;
  }
  if (!row.isActive) return 'is switched off: switch it on first';
  if (!row.hasUrl) return 'has no url to send to';
  return `is not sent for ${sentFor}`;
};

/** One fault for each webhook that was named and that it cannot be sent to. */
export const hindrances = (
  rows: readonly RefeedRow[],
  { field, webhooks, sentFor }: RefeedWish,
  type: ResourceType,
): Fault[] => {
  const byId = new Map(rows.map((row) => [row.webhookId, row]));
  return (webhooks ?? []).flatMap((id): Fault[] => {
    const row = byId.get(id);
    if (row !== undefined && row.deliveryId !== null) return [];
    const message = `${field}: ${id} ${hindrance(row, type, sentFor)}`;
    return [{ code: 'invalid_value', message, field }];
  });
};
