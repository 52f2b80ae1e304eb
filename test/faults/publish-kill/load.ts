/** The requests that are sent while servers are killed: the rows that each leaves identify it. */
import * as fc from 'fast-check';

const ARRAY_EVENTS = 20;
/** Resources that every process publishes all the time. */
const SHARED = 5;

export type Event = {
  event: string;
  resource: { id: string; request: number; [name: string]: unknown };
  idempotency_key?: string;
};

export type Request = {
  n: number;
  body: Event | Event[];
  events: readonly Event[];
  /** The key of the header. */
  key: string | undefined;
  /** All keys under which it leaves a row. */
  keys: readonly string[];
  answer: 'published' | 'none';
};

export type Shape = { kind: 'single' | 'subscription' | 'array'; keyed: 'header' | 'events' | 'not'; shared: number };

/** Half of them have no key: these are never repeated. */
export const shapes = fc.noBias(
  fc.record({
    kind: fc.constantFrom('single', 'subscription', 'array'),
    keyed: fc.constantFrom('header', 'events', 'not', 'not'),
    shared: fc.nat(SHARED - 1),
  }),
) satisfies fc.Arbitrary<Shape>;

const transaction = (n: number, id: string): Event => ({
  event: 'transaction/created',
  resource: { id, request: n, total_order: 9.5 },
});

const customer = (n: number, id: string): Event => ({ event: 'customer/created', resource: { id, request: n } });

/** A first version that is active: it derives a lifecycle event and a term. */
const subscription = (n: number, id: string): Event => ({
  event: 'subscription/created',
  resource: {
    id,
    request: n,
    is_active: true,
    frequency: '1m',
    start_date: '2026-01-01T00:00:00+0000',
    next_transaction_date: '2036-01-01T00:00:00+0000',
    _embedded: { 'svc:transaction_template': { total_order: 10, currency_code: 'EUR' } },
  },
});

function eventsOf(n: number, { kind, shared }: Shape): Event[] {
  switch (kind) {
    case 'single':
      return [transaction(n, `${n}-0`)];
    case 'subscription':
      return [subscription(n, `${n}-0`)];
    case 'array':
      return [
        subscription(n, `${n}-0`),
        customer(n, `shared-${shared}`),
        ...Array.from({ length: ARRAY_EVENTS - 2 }, (_, at) => transaction(n, `${n}-${at + 1}`)),
      ];
  }
}

export function requestOf(n: number, shape: Shape): Request {
  const events = eventsOf(n, shape);
  if (shape.keyed === 'events') {
    for (const [at, event] of events.entries()) event.idempotency_key = `${n}-${at}`;
  }
  const [first] = events;
  const key = shape.keyed === 'header' ? String(n) : undefined;
  const keys = events.flatMap(({ idempotency_key: name }) => name ?? []);
  return {
    n,
    body: shape.kind === 'array' || first === undefined ? events : first,
    events,
    key,
    keys: key === undefined ? keys : [key],
    answer: 'none',
  };
}
