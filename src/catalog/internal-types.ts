/**
 * Properties of the resources that Halcyon makes: their types, the JSON Schemas in the event catalogue, and how filters compare
 * them. Filters on other names are rejected.
 */
import { Type, type Static } from 'typebox';
import type { ExactNumber } from '#core/exact-number.ts';
import type { Comparison, Comparisons } from '#core/listing.ts';
import type { Value } from '#hypermedia/document.ts';
import type { ResourceType } from './catalog.ts';
import { STEPS } from './subscription-steps.ts';

const id = Type.Integer({ minimum: 1, description: 'Allocated by Halcyon.' });
const dateCreated = Type.String({ description: 'ISO 8601 with an offset, in the time zone of the store.' });

type Properties = { readonly [name: string]: Value } | null;

const textOrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description });
const integerOrNull = (description: string) => Type.Unsafe<number | null>({ type: ['integer', 'null'], description });

const properties = (description: string) =>
  Type.Unsafe<Properties>({ type: ['object', 'null'], additionalProperties: true, description });

const changelog = Type.Object({
  id,
  resource: Type.Enum(['store', 'webhook', 'member', 'invitation', 'grant', 'customer'], {
    description: 'What changed.',
  }),
  resource_id: Type.Unsafe<number | string>({
    type: ['integer', 'string'],
    description: 'The id of what changed: of a customer the one that the platform uses.',
  }),
  action: Type.Enum([
    'created',
    'changed',
    'deleted',
    'accepted',
    'declined',
    'deactivated',
    'given',
    'revoked',
    'erased',
    'link_created',
    'link_used',
  ]),
  actor: Type.Enum(['user', 'app', 'platform', 'operator', 'halcyon'], { description: 'Who made the change.' }),
  user: integerOrNull('The id of the user, if any.'),
  client: textOrNull('The client_id of the app, if any.'),
  before: properties('The properties that differ, before the change; null if the resource did not exist.'),
  after: properties('The properties that differ, after the change; null if the resource no longer exists.'),
  date_created: dateCreated,
});

export type ChangelogEntry = Static<typeof changelog>;

const app = Type.Object({
  id,
  client_id: Type.String({ description: 'The client_id of the app.' }),
  store_id: Type.Integer({ minimum: 1, description: 'The store.' }),
  scope: textOrNull('The scope of all grants of the app in the store together; null after the last one.'),
  previous_scope: textOrNull('The scope before; null before the first grant.'),
  user: integerOrNull(
    'The id of the user whose grant began or ended; null if all grants ended, as with the app or the store.',
  ),
  date_created: dateCreated,
});

/** A change of the access of an app to a store. */
export type AppChange = Static<typeof app>;

const operatorEvent = Type.Object({
  id,
  store_id: Type.Integer({ minimum: 1, description: 'The store that the event concerns.' }),
  webhook_id: integerOrNull('The webhook that the event concerns; null without one.'),
  client_id: textOrNull('The client_id of the app that the event concerns; null without one.'),
  reason: textOrNull(
    'Why: failures or gone of a disabled webhook, the reason that an operator gave of a suspended store; else null.',
  ),
  events_total: integerOrNull('How many events did not arrive at the webhook in one hour; null without one.'),
  date_from: textOrNull('When that hour began, like date_created; null without one.'),
  date_created: dateCreated,
});

/** What happened in a store, for the operator. */
export type OperatorEvent = Static<typeof operatorEvent>;

/** The amounts of a snapshot in one currency: the recurring revenue at the end of the day, and its changes on the day. */
export const REVENUE_AMOUNTS = ['mrr', 'new', 'expansion', 'contraction', 'churn', 'reactivation'] as const;
export type RevenueAmount = (typeof REVENUE_AMOUNTS)[number];

const snapshot = Type.Object({
  id,
  date: Type.String({ description: 'The day, as YYYY-MM-DD.' }),
  currencies: Type.Array(
    Type.Object({
      currency_code: Type.String({ description: 'ISO 4217.' }),
      ...Object.fromEntries(REVENUE_AMOUNTS.map((name) => [name, Type.Number()])),
      active_count: Type.Integer({ minimum: 0, description: 'The number of active subscriptions.' }),
    }),
  ),
  date_created: dateCreated,
});

const numberOrText = (description: string) =>
  Type.Unsafe<number | ExactNumber | string | null>({ type: ['number', 'string', 'null'], description });

const step = Type.Object({
  id,
  subscription_id: Type.Unsafe<Value>({ type: ['integer', 'string'], description: 'As published by the platform.' }),
  event: Type.Enum(STEPS, { description: 'The step.' }),
  amount: numberOrText('The amount that was billed, is past due or was recovered; null for other steps.'),
  currency_code: numberOrText('As published by the platform.'),
  before: properties('The properties that differ, before the step; null for a new subscription.'),
  after: properties('The properties that differ, after the step; null for a new subscription.'),
  date_created: dateCreated,
});

/** A lifecycle step of a subscription, as Halcyon derives it. */
export type SubscriptionStep = Static<typeof step>;

/**
 * Schemas of the resources that Halcyon makes. In stores with `subscription_events` `published`, the platform makes those of
 * subscription_event and chooses their properties.
 */
export const INTERNAL_SCHEMAS = {
  changelog,
  app,
  operator_event: operatorEvent,
  subscription_event: step,
  subscription_mrr_snapshot: snapshot,
} as const;

/** Returns how filters compare a property: ids as texts, because they are those of addresses. */
function comparisonOf(name: string, { type }: { type?: unknown }): Comparison {
  const types = new Set([type].flat());
  if (name.startsWith('date')) return 'date';
  if (types.has('object') || types.has('array')) return 'none';
  return types.has('integer') && name !== 'id' ? 'number' : 'text';
}

const comparisonsIn = ({ properties: all }: { properties: Readonly<Record<string, object>> }): Comparisons =>
  Object.fromEntries(Object.entries(all).map(([name, schema]) => [name, comparisonOf(name, schema)]));

const comparisons: Readonly<Partial<Record<ResourceType, Comparisons>>> = {
  changelog: comparisonsIn(changelog),
  app: comparisonsIn(app),
  operator_event: comparisonsIn(operatorEvent),
  subscription_mrr_snapshot: comparisonsIn(snapshot),
};

/**
 * Returns undefined for types whose properties the publisher chooses, including `subscription_event`, which platforms may
 * publish.
 */
export function internalProperties(type: ResourceType): Comparisons | undefined {
  return comparisons[type];
}
