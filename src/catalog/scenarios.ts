/**
 * Makes realistic events that belong together, in the form that a platform publishes: for sandbox stores and for the demo. They
 * contain no customer data.
 */
import type { JsonObject } from './resource-document.ts';

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
    const embedded = { ...(resource['_embedded'] as JsonObject), 'svc:customer': customer };
    return { event, resource: { ...resource, customer_email: customer.email, _embedded: embedded } };
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
