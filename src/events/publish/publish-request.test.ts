import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '#core/problem.ts';
import { needsTimeZone, readPublish } from './publish-request.ts';

const limits = { eventsPerRequest: 3, eventLimitBytes: 200, eventDepth: 3 };
const NOW = new Date('2026-11-25T12:00:00Z');
const asked = {
  limits,
  header: undefined,
  fingerprintKeys: [Buffer.alloc(32)] as const,
  timeZone: 'Europe/Berlin',
  now: NOW,
};
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

const dated = (date_modified: unknown) => ({ ...good, resource: { id: 1, date_modified } });
const modifiedAt = (date: unknown) => readPublish(dated(date), asked).events[0]?.modifiedAt?.toISOString();

const DATES: readonly (readonly [date: unknown, at: string | undefined])[] = [
  [undefined, undefined],
  [null, undefined],
  ['2026-11-20T16:05:03+0100', '2026-11-20T15:05:03.000Z'],
  ['2026-11-20T16:05:03-08:00', '2026-11-21T00:05:03.000Z'],
  ['2026-11-20T16:05:03Z', '2026-11-20T16:05:03.000Z'],
  ['2026-11-20T16:05:03.25Z', '2026-11-20T16:05:03.250Z'],
  // Without an offset: in the time zone of the store, in which an hour of March does not exist and one of October is twice.
  ['2026-11-20', '2026-11-19T23:00:00.000Z'],
  ['2026-11-20T16:05', '2026-11-20T15:05:00.000Z'],
  ['2026-11-20 16:05:03', '2026-11-20T15:05:03.000Z'],
  ['2026-07-20T16:05:03.25', '2026-07-20T14:05:03.250Z'],
  ['2026-03-29T02:30', '2026-03-29T01:30:00.000Z'],
  ['2026-10-25T02:30', '2026-10-25T00:30:00.000Z'],
  ['9999-12-31', '9999-12-30T23:00:00.000Z'],
];

test('date_modified is a date, in the time zone of the store if it has no offset', () => {
  for (const [date, at] of DATES) {
    assert.equal(modifiedAt(date), at, String(date));
    const isLocal = typeof date === 'string' && !/[Z+]|-08:00/.test(date);
    assert.equal(needsTimeZone([good, dated(date)]), isLocal, String(date));
  }
  for (const body of [null, 5, [], [null], { resource: 5 }, { resource: null }])
    assert.equal(needsTimeZone(body), false);
});

test('a date_modified more than an hour in the future is marked', () => {
  const marks = (date: string) => readPublish(dated(date), asked).events[0]?.isAhead;
  for (const date of ['2026-11-25T13:00:00Z', '2026-11-25T14:00:00', '2026-11-25'])
    assert.equal(marks(date), undefined);
  for (const date of ['2026-11-25T13:00:01Z', '2026-11-25T14:00:01', '9999-12-31']) assert.equal(marks(date), true);
});

const NO_DATES: readonly unknown[] = [
  '',
  ' ',
  '5',
  '1795267500',
  'yesterday',
  'now',
  'null',
  '2026',
  '2026-11',
  '20.11.2026',
  '11/20/2026',
  '20261120',
  '2026-02-31',
  '2026-13-01',
  '0000-00-00',
  '0000-01-01T00:00:00Z',
  '+010000-01-01T00:00:00Z',
  '2026-11-20T24:00Z',
  '2026-11-20T16',
  '2026-11-20T16:05:03 Europe/Berlin',
  'Fri, 20 Nov 2026 16:05:03 GMT',
  '2026-W47-5',
  '2026-11-20Z',
  0,
  1795267500,
  1795267500000,
  true,
  false,
  [],
  {},
  ['2026-11-20'],
  { date: '2026-11-20' },
];

test('a date_modified that is no date is refused, and the message says what to write', () => {
  const message = /^0\.resource\.date_modified must be a date such as 2026-11-20T16:05:03\+0000/;
  for (const date of NO_DATES) {
    assert.deepEqual(faultsOf(dated(date)), ['400 resource.date_modified invalid_value'], String(date));
    assert.throws(() => readPublish([dated(date)], asked), { message });
  }
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
  assert.match(
    messageOf('customer/exploded'),
    /must be one of customer\/created, customer\/modified, customer\/deleted, customer\/data_requested$/,
  );
  assert.match(messageOf('thing/created'), /of the catalogue, .*EVENTS_FILE/);
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
