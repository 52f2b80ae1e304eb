/** Sample documents as handlers make them, to render pages without the modules. */
import { webhookView, type WebhookView } from '#webhooks/webhook-document.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import { boolean, code, count, date, enumeration, json, number, secret, text, url } from '#hypermedia/document.ts';

export const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const { baseUrl } = naming;
export const store = `${baseUrl}/stores/1001`;

export const EVENTS = 'created modified captured refunded voided'.split(' ').map((action) => `transaction/${action}`);

const STATES = ['ok', 'failing', 'paused', 'inactive', 'ok'] as const;

const linksOfWebhook = (self: string): Link[] => [
  { rel: 'self', href: self, title: 'This webhook' },
  { rel: 'store', href: store, title: 'The store of this webhook' },
  { rel: 'webhooks', href: `${store}/webhooks`, title: 'All webhooks of the store' },
  { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this webhook' },
  { rel: 'logs', href: `${self}/logs`, title: 'The attempts of this webhook' },
];

export const STORED_KEY = 'whsec_c3RvcmVkIGFuZCBuZXZlciBwcmVmaWxsZWQ';

/** Returns the n-th webhook of a store with all kinds of webhooks. */
export function webhook(n: number): Document {
  const self = `${baseUrl}/webhooks/${2281 + 256 * n}`;
  const name = n % 4 === 0 ? 'Orders to the warehouse' : `Newsletter, list ${n}`;
  const shown: WebhookView = {
    storeId: 1303,
    url: n === 3 ? null : `https://warehouse-${n}.example.com/hooks/orders?source=halcyon&region=north`,
    eventResource: n % 2 === 0 ? 'transaction' : 'customer',
    events: EVENTS.slice(0, 2 + (n % 3)).toReversed(),
    format: n % 3 === 0 ? 'json' : 'partner_automation',
    version: '2',
    ratePerSecond: n === 0 ? 10 : null,
    retryProfile: 'hour',
    ordering: null,
    isActive: n % 5 !== 3,
    isHeld: false,
    state: STATES[n % 5] ?? 'ok',
    hasHeaders: n === 0,
    rotationEnds: null,
    isRotatable: true,
  };
  return {
    name: 'webhook',
    title: name,
    version: 7 + n,
    links: linksOfWebhook(self),
    embedded: [],
    properties: [
      number('id', 2281 + 256 * n),
      text('name', name),
      enumeration('format', shown.format),
      text('version', '2'),
      url.orNull('url', shown.url),
      text.orNull('query', n === 0 ? 'zoom=items,items:item_options,customer' : null),
      secret.orNull('encryption_key', n === 2 ? null : STORED_KEY),
      enumeration.orNull('event_resource', shown.eventResource),
      json('events', shown.events),
      boolean('is_active', shown.isActive ? '1' : '0'),
      json('headers', n === 0 ? { 'X-Warehouse': 'north', 'X-Team': 'orders & returns' } : {}),
      number.orNull('rate_per_second', shown.ratePerSecond),
      enumeration('retry_profile', shown.retryProfile),
      enumeration('state', shown.state),
      date('date_created', `2026-11-${String(1 + n).padStart(2, '0')}T09:30:00+0100`),
      date('date_modified', '2026-11-20T16:05:03+0100'),
    ],
    ...webhookView.attach(shown),
  };
}

/** Returns a page of twenty items of a collection. */
export function collectionOf(
  rel: string,
  title: string,
  items: readonly Document[],
  { offset, total } = { offset: 0, total: items.length },
): Document {
  const page = (at: number): string => `${store}/${rel}?limit=20&order=name&offset=${at}`;
  const last = Math.floor(Math.max(total - 1, 0) / 20) * 20;
  return {
    name: rel,
    links: [
      { rel: 'self', href: page(offset), title },
      { rel: 'first', href: page(0), title: 'First page' },
      { rel: 'prev', href: page(Math.max(offset - 20, 0)), title: 'Previous page' },
      { rel: 'next', href: page(Math.min(offset + 20, last)), title: 'Next page' },
      { rel: 'last', href: page(last), title: 'Last page' },
      { rel: 'store', href: store, title: 'The store they belong to' },
    ],
    embedded: [{ rel, documents: items }],
    properties: [
      count('total_items', total),
      number('returned_items', items.length),
      number('limit', 20),
      number('offset', offset),
    ],
  };
}

/** An attempt, which has no address of its own. */
export function attempt(n: number): Document {
  return {
    name: 'log',
    embedded: [],
    links: [
      { rel: 'webhook', href: `${baseUrl}/webhooks/2281`, title: 'The webhook' },
      { rel: 'event', href: `${store}/events/691489734656233`, title: 'The event that was sent' },
      { rel: 'resource', href: `${store}/transactions/7001${n}`, title: 'The latest version of what it is about' },
    ],
    properties: [
      text('id', `69148973465648${n % 10}-${n}`),
      text('resource_type', 'transaction'),
      text('resource_id', `7001${n}`),
      number('webhook_id', 2281),
      text('event', n % 2 === 0 ? 'transaction/created' : 'transaction/refunded'),
      number('attempt', 1 + (n % 3)),
      number.orNull('response_code', n % 4 === 3 ? null : n % 4 === 0 ? 200 : 500),
      code('response_body', n % 4 === 0 ? '{"ok":true}' : '<html>\r\n<body>\u0007Internal error</body>\n</html>'),
      code('response_headers', 'content-type: text/html\nserver: example\nx-request-id: 7f3'),
      number('duration', 214 + 37 * n),
      text('outcome', ['delivered', 'refused', 'refused', 'timed_out:connect'][n % 4] ?? ''),
      date('date_created', `2026-11-20T16:${String(10 + n)}:10+0000`),
    ],
  };
}

const money = (name: string, value: string | number) => ({ name, value, kind: 'money', currency: 'EUR' }) as const;

const leaf = (name: string, properties: Document['properties']): Document => ({
  name,
  links: [],
  properties,
  embedded: [],
});

const option = (name: string, price: number) => leaf('item_options', [json('name', name), money('price_mod', price)]);

const item = (n: number): Document => ({
  ...leaf('items', [
    json.orNull('name', ['A bag of coffee beans', 'Paper filters, 100 pieces', 'Grinder'][n] ?? null),
    money('price', ['12.50', '4.999', '189'][n] ?? ''),
    json('quantity', n + 1),
    json('code', `SKU-${n}`),
    json('weight', 0.25 * n),
    json('is_taxable', n !== 1),
    json('dimensions', { width: 10, height: 20, parts: [{ name: 'lid' }] }),
  ]),
  embedded: n === 0 ? [{ rel: 'item_options', documents: [option('Ground', 1), option('Whole', 0)] }] : [],
});

const customer: Document = {
  ...leaf('customer', [json('id', 5), json('first_name', 'Grace'), json('email', 'grace@example.com')]),
  links: [{ rel: 'self', href: `${store}/customers/5`, title: 'This customer' }],
};

const RELATIONS = 'items customer payments applied_taxes discounts shipments billing_addresses'.split(' ');

/** A published resource of unknown structure. */
export const transaction: Document = {
  name: 'transaction',
  title: 'Transaction 70012',
  links: [
    { rel: 'self', href: `${store}/transactions/70012`, title: 'This transaction' },
    { rel: 'store', href: store, title: 'The store it belongs to' },
    ...RELATIONS.map((rel) => ({ rel, href: `${store}/transactions/70012/${rel}`, title: rel.replaceAll('_', ' ') })),
  ],
  properties: [
    json('id', 70012),
    json('status', 'captured'),
    json('customer_email', 'grace@example.com'),
    money('total_order', 1234.5),
    money('total_tax', '197.10'),
    json('is_test', false),
    date('transaction_date', '2026-11-20T16:05:03-0330'),
    json('note', 'Leave it at the gate.\nThe bell is broken, and \u202Ethe dog\u202C barks.'),
    json('custom', { gift: true, wrapping: 'red' }),
    json('history', [
      { at: '2026-11-20', what: 'created' },
      { at: '2026-11-21', what: 'captured' },
    ]),
    json('tags', []),
  ],
  embedded: [
    { rel: 'items', documents: [item(0), item(1), item(2)] },
    { rel: 'customer', single: true, documents: [customer] },
    { rel: 'discounts', documents: [] },
  ],
};

const LONG_NAME = 'x'.repeat(120);

/** Returns a transaction whose long id has no blank at which a line could break. */
export function endless(letter: string): Document {
  const id = letter.repeat(64);
  const self = `${store}/transactions/${id}`;
  return {
    name: 'transaction',
    title: `Transaction ${letter.repeat(40)}`,
    links: [
      { rel: 'self', href: self, title: 'This transaction' },
      { rel: LONG_NAME, href: `${self}/${LONG_NAME}`, title: LONG_NAME },
    ],
    properties: [
      json('id', id),
      json('status', 's'.repeat(40)),
      json(LONG_NAME, LONG_NAME),
      json('custom', { [LONG_NAME]: LONG_NAME }),
    ],
    embedded: [
      { rel: LONG_NAME, documents: [leaf(LONG_NAME, [json('id', id), json(LONG_NAME, LONG_NAME)])] },
      { rel: 'customer', single: true, documents: [leaf(LONG_NAME, [json(LONG_NAME, LONG_NAME)])] },
    ],
  };
}

const error = (message: string, field: string): Document =>
  leaf('error', [
    text('logref', 'id-abcDEF012345'),
    text('code', 'invalid_parameter'),
    text('message', message),
    text('field', field),
  ]);

export const errors: Document = {
  ...leaf('errors', [number('total', 2)]),
  title: 'Invalid request',
  embedded: [
    {
      rel: 'errors',
      documents: [
        error('limit must be one whole number from 1 to 300', 'limit'),
        error('There is no parameter "colour" here; possible: offset, limit', 'colour'),
      ],
    },
  ],
};

export const home: Document = {
  ...leaf('home', []),
  title: 'Halcyon',
  links: [
    { rel: 'self', href: baseUrl, title: 'Where everything begins' },
    { rel: 'user', href: `${baseUrl}/users/7`, title: 'Your account' },
    { rel: 'stores', href: `${baseUrl}/stores`, title: 'Your stores' },
    { rel: 'docs', href: `${baseUrl}/docs`, title: 'Documentation', type: 'text/html' },
    { rel: 'token', href: `${baseUrl}/token`, title: 'Where tokens are given out', type: 'application/json' },
  ],
};
