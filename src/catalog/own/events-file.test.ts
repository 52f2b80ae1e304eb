/** Files with faults, one by one: the error names the place in the file. */
import { ConfigError } from '#core/config-error.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDeclarations } from './events-file.ts';

type Json = Record<string, unknown>;

const EVENTS = { created: { when: 'An invoice is sent.', since: '2026-12' } };
const invoice = { title: 'An invoice', description: 'A bill.', events: EVENTS, example: { id: 1, total: 5 } };
const total = (schema: Json): Json => ({ type: 'object', properties: { total: schema } });

const read = (resources: Json) => readDeclarations({ path: 'own.json', text: JSON.stringify({ resources }) });

/** Returns the message of the error; fails if there is none. */
function messageOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message;
  }
  return assert.fail('the file was accepted');
}

test('a complete file is read', () => {
  const [own, transaction, ...others] = read({
    invoice: {
      ...invoice,
      version: 3,
      relations: { customer: {}, lines: { product: {} } },
      schema: total({ type: 'number' }),
    },
    transaction: { events: { flagged: { when: 'It is flagged.', since: '1' } }, relations: { fraud_checks: {} } },
  });
  assert.deepEqual([own?.type, own?.version, transaction?.type, others], ['invoice', 3, 'transaction', []]);
  assert.deepEqual([...(own?.events.keys() ?? [])], ['created']);
  assert.deepEqual(own?.check?.faultsOf('{"id":1,"total":"5"}'), [
    { code: 'invalid_value', message: 'resource.total must be number', field: 'resource.total' },
  ]);
});

const changed = (changes: Json): Json => ({ invoice: { ...invoice, ...changes } });
const withSchema = (schema: Json): Json => changed({ schema });

const relationsOf = (count: number): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`r${index}`, {}]));
const typesOf = (count: number): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, invoice]));
const eventsOf = (count: number): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`e${index}`, EVENTS.created]));

/** The place that the error names, the resources of the file, and a word of the advice. */
const FAULTS: readonly (readonly [place: string, resources: Json, advice: RegExp])[] = [
  ['/resources ', {}, /must not have fewer/],
  ['/resources/Invoice:', { Invoice: invoice }, /lower-case/],
  [`/resources/${'a'.repeat(41)}:`, { ['a'.repeat(41)]: invoice }, /at most 40/],
  ...['webhook', 'item', 'statuse', 'live', 'event', 'self', 'constructor', 'store_id_x', 'invoice_selection'].map(
    (name) => [`/resources/${name}:`, { [name]: invoice }, /another name/] as const,
  ),
  ['/resources/bill:', { bill: invoice, bills: invoice }, /bills is a resource/],
  ['/resources/transactions:', { transactions: invoice }, /another name/],
  ['/resources/invoice/plural:', changed({ plural: 'Bills' }), /lower-case/],
  ['/resources/invoice:', changed({ plural: 'customers' }), /customers is a name of the API/],
  ['/resources/invoice:', changed({ plural: 'invoice' }), /invoice is a resource/],
  ['/resources/transaction/plural:', { transaction: { plural: 'sales' } }, /remove it/],
  ['/resources/changelog:', { changelog: { events: EVENTS } }, /remove it/],
  ['/resources/subscription_event:', { subscription_event: { relations: { x: {} } } }, /remove it/],
  ['/resources/transaction/title:', { transaction: { title: 'A sale' } }, /remove it/],
  ['/resources/transaction/events/created:', { transaction: { events: EVENTS } }, /another name/],
  ['/resources/transaction/relations/items:', { transaction: { relations: { items: {} } } }, /remove it/],
  ['/resources/invoice:', { invoice: { title: 'An invoice' } }, /add description, events, example/],
  ['/resources/invoice/colour ', changed({ colour: 'red' }), /remove it/],
  ['/resources/invoice/title ', changed({ title: '' }), /must not have fewer/],
  ['/resources/invoice/version ', changed({ version: 1.5 }), /must be integer/],
  ['/resources/invoice/events:', changed({ events: {} }), /add an event/],
  ['/resources/invoice/events/created/when ', changed({ events: { created: { since: '1' } } }), /is required/],
  ['/resources/invoice/events/Paid:', changed({ events: { Paid: EVENTS.created } }), /lower-case/],
  ['/resources/invoice/events/test:', changed({ events: { test: EVENTS.created } }), /another name/],
  ['/resources/invoice/events/refeed:', changed({ events: { refeed: EVENTS.created } }), /another name/],
  ['/resources/invoice/events ', changed({ events: eventsOf(51) }), /must not have more/],
  ['/resources/invoice/relations/webhooks:', changed({ relations: { webhooks: {} } }), /another name/],
  ['/resources/invoice/relations/lines/store:', changed({ relations: { lines: { store: {} } } }), /another name/],
  ['/resources/invoice/relations/Lines:', changed({ relations: { Lines: {} } }), /lower-case/],
  ['/resources/invoice/relations/lines:', changed({ relations: { lines: [] } }), /or \{\}/],
  ['/resources/invoice/relations/a/b/c/d:', changed({ relations: { a: { b: { c: { d: { e: {} } } } } } }), /4 levels/],
  ['/resources/invoice/relations:', changed({ relations: relationsOf(51) }), /at most 50/],
  ['/resources ', typesOf(51), /must not have more/],
  ['/resources/invoice/schema/type ', withSchema({ type: 'thing' }), /type must be one of array, boolean[a-z, ]*$/],
  ['/resources/invoice/schema/properties/total/minimum ', withSchema(total({ minimum: '3' })), /must be number/],
  ['/resources/invoice/schema/properties/total/pattern ', withSchema(total({ pattern: '[' })), /regex/],
  ['/resources/invoice/schema/properties/total/pattern:', withSchema(total({ pattern: '(?=a)' })), /look-around/],
  [
    '/resources/invoice/schema/properties/total/pattern:',
    withSchema(total({ pattern: String.raw`(a)\1` })),
    /to groups/,
  ],
  ['/resources/invoice/schema/properties/total/pattern:', withSchema(total({ pattern: 'a{1001}' })), /over 1000/],
  [
    '/resources/invoice/schema/patternProperties/^(a+)+$:',
    withSchema({ patternProperties: { '^(a+)+$': {} } }),
    /at most one/,
  ],
  ['/resources/invoice/schema/requird:', withSchema({ requird: ['id'] }), /correct or remove/],
  ['/resources/invoice/schema/unevaluatedProperties:', withSchema({ unevaluatedProperties: false }), /not checked/],
  ['/resources/invoice/schema/$id:', withSchema({ $id: 'https://example.com/invoice' }), /correct or remove/],
  [
    '/resources/invoice/schema/allOf/0/properties/a~1b/x:',
    withSchema({ allOf: [{ properties: { 'a/b': { x: 1 } } }] }),
    /correct/,
  ],
  ['/resources/invoice/schema/properties/total/format:', withSchema(total({ format: 'dat' })), /date-time/],
  ['/resources/invoice/schema/properties/total/$ref:', withSchema(total({ $ref: '#/$defs/amount' })), /definitions/],
  [
    '/resources/invoice/schema/properties/total/$ref:',
    withSchema(total({ $ref: 'https://example.com/x' })),
    /own definitions/,
  ],
  ['/resources/invoice/schema:', withSchema({ description: 'x'.repeat(65_536) }), /64|65536/],
  [
    '/resources/invoice/schema:',
    withSchema({
      $ref: '#/$defs/all',
      $defs: { all: { properties: { id: true, total: true }, additionalProperties: false } },
    }),
    /at its top only/,
  ],
  ['/resources/invoice/example/total ', withSchema(total({ type: 'string' })), /change the example or the schema/],
  ['/resources/invoice/example/number ', withSchema({ required: ['number'] }), /is required/],
  ['/resources/invoice/example:', changed({ example: { total: 5 } }), /add an id/],
  ['/resources/invoice/example:', changed({ example: { id: 1, text: 'x'.repeat(65_536) } }), /shorten/],
  ['/resources/transaction:', { transaction: { schema: { required: ['flag'] } } }, /add an example/],
];

for (const [place, resources, advice] of FAULTS)
  test(`fault at ${place} says ${advice.source}`, () => {
    const message = messageOf(() => read(resources));
    assert.ok(message.startsWith('EVENTS_FILE is "own.json": '), message);
    assert.ok(message.includes(`: ${place}`), message);
    assert.match(message, advice);
  });

test('what is no JSON, or has another form, is an error', () => {
  for (const [text, expected] of [
    ['{"resources": {', /not JSON/],
    ['[]', /write an object with the member resources/],
    ['{"resources": {"a": {}, "b": {"events": {}, "events": {}}}}', /: \/resources\/b\/events: remove one of the two/],
    ['{"resources": {}, "resources": {}}', /: \/resources: remove one of the two/],
    ['{}', /\/resources is required/],
    ['{"resources": {"invoice": 7}}', /\/resources\/invoice must be object/],
  ] as const)
    assert.match(
      messageOf(() => readDeclarations({ path: 'own.json', text })),
      expected,
    );
});

test('an error names every fault, at most ten', () => {
  const two = messageOf(() => read({ Invoice: invoice, transaction: { title: 'A sale' } }));
  assert.match(two, /\/resources\/Invoice.*\/resources\/transaction\/title/);
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`T${index}`, invoice]));
  assert.equal(messageOf(() => read(many)).split('; ').length, 10);
});
