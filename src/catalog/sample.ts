/** Sample resources, and events that belong together. They contain no customer data. */
import type { Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import {
  declarationOf,
  isMany,
  labelOf,
  relationsOf,
  titleOf,
  typeOfCollection,
  type ResourceType,
} from './catalog.ts';
import { embeddedUnder, isObject, type Frozen, type JsonObject } from './resource-document.ts';
import explained from './explained.json' with { type: 'json' };

// A sample resource of each type with all relations embedded, from explained.json and the examples of the operator.

type Description = { title: string; about: string; sample?: JsonObject | readonly JsonObject[] };

/** Returns the title for use inside a sentence. */
export function lowerCaseTitle(name: string): string {
  return titleOf(name).replace(/^./, (first) => first.toLowerCase());
}

/** Returns the description of a type, collection or relation of the operator; a generic one for relations, of which files have none. */
function ownDescriptionOf(rel: string): Description {
  const { description } = declarationOf(rel) ?? {};
  if (description !== undefined) return description;
  if (typeOfCollection(rel) !== undefined)
    return { title: titleOf(rel), about: `The ${labelOf(rel)} of a store, in their latest versions.` };
  return {
    title: titleOf(rel),
    about: `The resources that the platform embedded under ${lowerCaseTitle(rel)}.`,
    sample: isMany(rel) ? [{ id: 1 }] : { id: 1 },
  };
}

export function descriptionOf(rel: string): Description {
  const descriptions = explained as Readonly<Record<string, Description>>;
  return (Object.hasOwn(descriptions, rel) ? descriptions[rel] : undefined) ?? ownDescriptionOf(rel);
}

/** Returns one sample, or a list if the relation has many targets, without what is embedded. */
export function sampleOf(rel: string): Value {
  const example = declarationOf(rel)?.example;
  if (example !== undefined) {
    const { _links: _l, _embedded: _e, ...properties } = example;
    return properties;
  }
  const type = typeOfCollection(rel);
  return descriptionOf(rel).sample ?? (type === undefined ? {} : [sampleOf(type)]);
}

const isSample = (value: Value | undefined): value is JsonObject | readonly JsonObject[] =>
  isObject(value) || (Array.isArray(value) && value.length > 0 && value.every(isObject));

/** Returns what a sample embeds: what the example contains, else samples of the relations. */
const embedded = (relations: Relations, example: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(relations).map(([rel, nested]): [string, Value] => {
      const withEmbedded = (item: Value): Value => ({
        ...(item as JsonObject),
        _embedded: embedded(nested, item as JsonObject),
      });
      const given = embeddedUnder(example, rel);
      const sample = isSample(given) ? given : sampleOf(rel);
      return [rel, Array.isArray(sample) ? (sample as Value[]).map(withEmbedded) : withEmbedded(sample)];
    }),
  );

export function sampleIdOf(type: ResourceType): string {
  const { id } = sampleOf(type) as JsonObject;
  return typeof id === 'string' ? id : JSON.stringify(id);
}

/** Returns a sample resource in the form that a platform publishes. */
export function sampleResource(type: ResourceType): JsonObject {
  const example = declarationOf(type)?.example ?? {};
  return {
    ...(sampleOf(type) as JsonObject),
    _embedded: embedded(relationsOf(type), example),
  };
}

/** The store of the examples in the documentation. */
export const EXAMPLE_STORE = 1001;

/** Returns the version of a sample resource in the store of the examples. */
export function frozenSample(type: ResourceType, baseUrl: string, resource: JsonObject = sampleResource(type)): Frozen {
  return { storeId: EXAMPLE_STORE, type, id: sampleIdOf(type), baseUrl, body: JSON.stringify(resource) };
}

// Realistic events in the form that a platform publishes: for sandbox stores and for the demo.

/** One event in the body of a publish request. */
export type ScenarioEvent = { event: string; resource: JsonObject };

const GOODS = ['Brush', 'Canvas', 'Easel', 'Palette', 'Sketchbook'] as const;
const FIRST_NAMES = ['Ada', 'Alan', 'Barbara', 'Edsger', 'Grace', 'Katherine', 'Niklaus'] as const;
const LAST_NAMES = ['Berg', 'Costa', 'Dubois', 'Ivanova', 'Miller', 'Nakamura', 'Okafor', 'Rossi', 'Silva'] as const;
const SHIPPING = 4.9;
const DAY_MS = 86_400_000;
/** The period of a subscription, near enough to the month that its frequency says. */
const PERIOD_DAYS = 30;

const datesOf = (at: Date): JsonObject => ({ date_created: at.toISOString(), date_modified: at.toISOString() });

function orderOf(id: number, at: Date): JsonObject & { total_order: number; currency_code: string } {
  const [good = '', quantity] = [GOODS[id % GOODS.length], 1 + (id % 3)];
  const price = 5 + (id % 17);
  return {
    id,
    total_item_price: price * quantity,
    total_order: price * quantity + SHIPPING,
    total_shipping: SHIPPING,
    currency_code: 'EUR',
    ...datesOf(at),
    _embedded: { 'svc:items': [{ name: good, price, quantity }] },
  };
}

/** Returns the events of an order: created, and captured a little later, as a shop publishes it. */
export function orderEvents(id: number, at: Date): ScenarioEvent[] {
  const order = orderOf(id, at);
  return [
    { event: 'transaction/created', resource: { ...order, status: 'authorized' } },
    { event: 'transaction/captured', resource: { ...order, status: 'captured' } },
  ];
}

/** The ids of the resources of a scenario, which its caller chooses. */
export type ScenarioIds = Readonly<Record<'customer' | 'order' | 'subscription' | 'log', number>>;

function customerOf({ customer: id }: ScenarioIds, at: Date): JsonObject & { email: string } {
  const first = FIRST_NAMES[id % FIRST_NAMES.length] ?? '';
  const last = LAST_NAMES[id % LAST_NAMES.length] ?? '';
  const email = `${first}.${last}.${id}@example.com`.toLowerCase();
  return { id, first_name: first, last_name: last, email, is_anonymous: false, ...datesOf(at) };
}

/** Returns an order of a customer, with a copy of the customer for `zoom`. */
function orderEventsOf(ids: ScenarioIds, at: Date): ScenarioEvent[] {
  const customer = customerOf(ids, at);
  return orderEvents(ids.order, at).map(({ event, resource }) => {
    const copies = { ...(resource['_embedded'] as JsonObject), 'svc:customer': customer };
    return { event, resource: { ...resource, customer_email: customer.email, _embedded: copies } };
  });
}

const customerCreated = (ids: ScenarioIds, at: Date): ScenarioEvent => ({
  event: 'customer/created',
  resource: customerOf(ids, at),
});

function logged(ids: ScenarioIds, at: Date, action: 'capture' | 'refund'): ScenarioEvent {
  const { total_order: amount } = orderOf(ids.order, at);
  const id = action === 'capture' ? ids.log : ids.log + 1;
  const resource = { id, transaction_id: ids.order, action, response: 'approved', amount, ...datesOf(at) };
  return { event: 'transaction_log/created', resource };
}

const checkout = (ids: ScenarioIds, at: Date): ScenarioEvent[] => [
  customerCreated(ids, at),
  ...orderEventsOf(ids, at),
  logged(ids, at, 'capture'),
];

function refund(ids: ScenarioIds, at: Date): ScenarioEvent[] {
  const [created] = orderEventsOf(ids, at);
  return [
    ...checkout(ids, at),
    { event: 'transaction/refunded', resource: { ...created?.resource, status: 'refunded' } },
    logged(ids, at, 'refund'),
  ];
}

/** A subscription that is billed once and then cancelled: it ends with the period that is paid. */
function subscription(ids: ScenarioIds, at: Date): ScenarioEvent[] {
  const dayIn = (days: number): string => new Date(at.getTime() + days * DAY_MS).toISOString();
  const { total_order: total, currency_code: currency } = orderOf(ids.order, at);
  const created: JsonObject = {
    id: ids.subscription,
    frequency: '1m',
    is_active: true,
    start_date: at.toISOString(),
    next_transaction_date: at.toISOString(),
    end_date: null,
    past_due_amount: 0,
    ...datesOf(at),
    _embedded: {
      'svc:customer': customerOf(ids, at),
      'svc:transaction_template': { total_order: total, currency_code: currency },
    },
  };
  const billed = { ...created, next_transaction_date: dayIn(PERIOD_DAYS) };
  return [
    customerCreated(ids, at),
    { event: 'subscription/created', resource: created },
    ...orderEventsOf(ids, at),
    { event: 'subscription/modified', resource: billed },
    { event: 'subscription/cancelled', resource: { ...billed, end_date: dayIn(PERIOD_DAYS) } },
  ];
}

const SCENARIOS = { checkout, refund, subscription } as const satisfies Readonly<
  Record<string, (ids: ScenarioIds, at: Date) => ScenarioEvent[]>
>;

export type Scenario = keyof typeof SCENARIOS;

export const scenarios = Object.keys(SCENARIOS) as readonly Scenario[];

/** Returns the events of a scenario, in order. It writes two logs at most: the one with the id `log`, and the one after it. */
export function scenarioEvents(scenario: Scenario, ids: ScenarioIds, at: Date): ScenarioEvent[] {
  return SCENARIOS[scenario](ids, at);
}
