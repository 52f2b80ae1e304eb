import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '#core/problem.ts';
import { readPublish } from './request.ts';

const limits = { eventsPerRequest: 3, eventLimitBytes: 200, eventDepth: 3 };
const asked = { limits, header: undefined, fingerprintKeys: [Buffer.alloc(32)] as const };
const good = { event: 'transaction/created', resource: { id: 7, total: 1.5 } };

function faultsOf(body: unknown): string[] {
  try {
    readPublish(body, asked);
    return [];
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return error.faults.map(({ field, code }) => `${error.status} ${field ?? ''} ${code}`);
  }
}

test('one event and an array of events are accepted', () => {
  const { events, isArray } = readPublish(good, asked);
  assert.equal(isArray, false);
  assert.deepEqual(events, [
    { type: 'transaction', action: 'created', resourceId: '7', modifiedAt: null, body: '{"id":7,"total":1.5}' },
  ]);
  assert.equal(readPublish([good, good], asked).events.length, 2);
  assert.equal(readPublish([good], asked).isArray, true);
});

test('date_modified is read with its offset, with or without a colon', () => {
  const at = (text: string) =>
    readPublish({ ...good, resource: { id: 1, date_modified: text } }, asked).events[0]?.modifiedAt?.toISOString();
  assert.equal(at('2026-11-20T16:05:03+0100'), '2026-11-20T15:05:03.000Z');
  assert.equal(at('2026-11-20T16:05:03-08:00'), '2026-11-21T00:05:03.000Z');
  // In the time zone of the process it would be another moment in each, and an hour would occur twice or not at all.
  assert.equal(at('2027-03-28T02:30:00'), '2027-03-28T02:30:00.000Z');
  assert.equal(at('2026-02-31'), undefined);
  assert.equal(at('5'), undefined);
  assert.equal(at('yesterday'), undefined);
  assert.equal(at('0000-01-01T00:00:00Z'), undefined);
  assert.equal(at('+010000-01-01T00:00:00Z'), undefined);
});

test('an unknown event of a known resource gets the events of the resource', () => {
  const messageOf = (event: string) => {
    try {
      readPublish({ ...good, event }, asked);
    } catch (error) {
      return error instanceof Error ? error.message : '';
    }
    return '';
  };
  assert.match(messageOf('customer/exploded'), /must be one of customer\/created, customer\/modified$/);
  assert.match(messageOf('thing/created'), /of the catalogue/);
});

const refused: readonly (readonly [name: string, body: unknown, faults: string[]])[] = [
  ['no object', 5, ['400 body invalid_value']],
  ['an unknown event', { ...good, event: 'transaction/exploded' }, ['400 event unknown_event']],
  ['a refeed, which is not published', { ...good, event: 'transaction/refeed' }, ['400 event unknown_event']],
  ['no resource', { event: 'transaction/created' }, ['400 resource required']],
  ['no id', { ...good, resource: {} }, ['400 resource.id invalid_value']],
  ['an id that is no integer', { ...good, resource: { id: 1.5 } }, ['400 resource.id invalid_value']],
  ['an id that has no digits', { ...good, resource: { id: 1e21 } }, ['400 resource.id invalid_value']],
  ['an id of 65 characters', { ...good, resource: { id: 'x'.repeat(65) } }, ['400 resource.id invalid_value']],
  ['an id of two dots', { ...good, resource: { id: '..' } }, ['400 resource.id invalid_value']],
  ['an id of one dot', { ...good, resource: { id: '.' } }, ['400 resource.id invalid_value']],
  ['an id with a line break', { ...good, resource: { id: 'a\nb' } }, ['400 resource.id invalid_value']],
  ['an unknown member', { ...good, colour: 'red' }, ['400 colour unknown_property']],
  ['too deep', { ...good, resource: { id: 1, a: { b: { c: { d: 1 } } } } }, ['400 resource too_deep']],
  ['too large', { ...good, resource: { id: 1, text: 'x'.repeat(200) } }, ['400 resource too_large']],
  [
    '__proto__ as a name',
    { ...good, resource: JSON.parse('{"id":1,"a":[{"__proto__":1}]}') },
    ['400 resource invalid_value'],
  ],
  [
    'an embedded resource under no relation',
    { ...good, resource: { id: 1, _embedded: 'items' } },
    ['400 resource._embedded invalid_value'],
  ],
  [
    'one relation under two names, in a copy',
    { ...good, resource: { id: 1, _embedded: { items: [{ _embedded: { a: 1, 'svc:a': 2 } }] } } },
    ['400 resource._embedded.items.0._embedded.svc:a invalid_value'],
  ],
  ['a key of 256 characters', { ...good, idempotency_key: 'x'.repeat(256) }, ['400 idempotency_key invalid_value']],
  ['an empty array', [], ['400 body required']],
  ['too many', [good, good, good, good], ['400 body too_many']],
  [
    'an event that only Halcyon publishes',
    { event: 'changelog/created', resource: { id: 1 } },
    ['409 event native_event'],
  ],
  ['a non-object in an array', [good, 5], ['400 1 invalid_value']],
];

for (const [name, body, faults] of refused) test(`refused: ${name}`, () => assert.deepEqual(faultsOf(body), faults));

test('every fault of an array is reported at once, with its index', () => {
  const native = { event: 'changelog/created', resource: { id: 1 } };
  const keyed = { ...good, idempotency_key: 'k' };
  assert.deepEqual(faultsOf([native, { ...good, resource: {} }, { event: 'x', resource: { id: 1 } }]), [
    '400 0.event native_event',
    '400 1.resource.id invalid_value',
    '400 2.event unknown_event',
  ]);
  assert.deepEqual(faultsOf([native, good, native]), ['409 0.event native_event', '409 2.event native_event']);
  assert.deepEqual(faultsOf([keyed, keyed, native]), [
    '400 2.event native_event',
    '400 1.idempotency_key invalid_value',
  ]);
});

test('the message of a fault in an array names its event', () => {
  assert.throws(() => readPublish([good, { ...good, resource: {} }], asked), { message: /^1\.resource\.id must be/ });
  assert.throws(() => readPublish({ ...good, resource: {} }, asked), { message: /^resource\.id must be/ });
});

for (const none of [null, '']) {
  test(`an idempotency key of ${JSON.stringify(none)} counts as absent`, () => {
    assert.deepEqual(readPublish([good, { ...good, idempotency_key: none }], asked).keys, []);
  });
}

test('empty values written by serializers embed nothing', () => {
  for (const _embedded of [null, [], {}]) {
    assert.deepEqual(faultsOf({ ...good, resource: { id: 1, _embedded } }), []);
  }
});

test('the deepest relation of the catalogue can be published, with its content', () => {
  const option = { name: 'size', choices: [{ code: { of: 'the shop' } }] };
  const items = [{ name: 'Box', _embedded: { 'svc:item_options': [option] } }];
  const resource = { id: 1, _embedded: { transaction_template: { _embedded: { items } } } };
  const { events } = readPublish(
    { event: 'subscription/created', resource },
    { ...asked, limits: { ...limits, eventLimitBytes: 1_000, eventDepth: 8 } },
  );
  assert.equal(events.length, 1);
});
