import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeInput, defaults, parseInput, stopsDeliveries, type Settings } from './webhook.ts';
import { stateOf } from './document.ts';

const settings: Settings = {
  ...defaults,
  name: 'Orders',
  format: 'json',
  url: 'https://example.com/hook',
  eventResource: 'transaction',
  events: ['transaction/created'],
};
const calm = { hasKey: true, forbidden: null, headerPrefix: 'Service' };

const read: [Parameters<typeof parseInput>[0], ReturnType<typeof parseInput>][] = [
  [{}, {}],
  [{ version: 2 }, { version: '2' }],
  [{ version: '' }, { version: '2' }],
  [{ version: null }, { version: '2' }],
  [{ url: '' }, { url: null }],
  [{ query: null }, { query: null }],
  [{ encryption_key: '' }, { encryptionKey: null }],
  [{ event_resource: '' }, { eventResource: null }],
  [{ headers: null }, { headers: {} }],
  [{ rate_per_second: null }, { ratePerSecond: null }],
  [{ retry_profile: null }, { retryProfile: 'hour' }],
  ...(['1', 1, true, 'true'] as const).map((is_active): [object, object] => [{ is_active }, { isActive: true }]),
  ...(['0', 0, false, 'false'] as const).map((is_active): [object, object] => [{ is_active }, { isActive: false }]),
];
for (const [body, input] of read) {
  test(`${JSON.stringify(body)} reads as ${JSON.stringify(input)}`, () => assert.deepEqual(parseInput(body), input));
}

const fields = (input: Parameters<typeof mergeInput>[1], context: Partial<typeof calm> | { forbidden: string } = {}) =>
  mergeInput(settings, input, { ...calm, ...context }).faults.map((fault) => `${fault.field} ${fault.code}`);

const judged: [string, string[], string[]][] = [
  ['a json webhook without a key', fields({}, { hasKey: false }), ['encryption_key required']],
  ['another format without a key', fields({ format: 'partner_automation' }, { hasKey: false }), []],
  ['a name of blanks', fields({ name: '   ' }), ['name invalid_value']],
  ['a name of which nothing is seen', fields({ name: '\u200b' }), ['name invalid_value']],
  ['a forbidden host', fields({ url: 'https://a.example' }, { forbidden: 'no' }), ['url forbidden_address']],
  ['no url at all', fields({ url: null }), []],
  [
    'a site-builder over http',
    fields({ format: 'partner_sitebuilder', url: 'http://a.example' }),
    ['url invalid_value'],
  ],
  [
    'a token that no header can carry',
    fields({ format: 'partner_sitebuilder', encryptionKey: 'a\r\nX-Forged: 1' }),
    ['encryption_key invalid_value'],
  ],
  ['a key of another format may have any characters', fields({ encryptionKey: 'schlüssel\n' }), []],
  ['a relation of the resource', fields({ query: 'zoom=items,items:item_options,customer' }), []],
  ['a relation of another resource', fields({ query: 'zoom=transaction_template' }), ['query unknown_relation']],
  ['an unknown modifier', fields({ query: 'order=name' }), ['query unknown_parameter']],
  [
    'a resource that lacks the relation',
    fields({ eventResource: 'customer', query: 'zoom=items' }),
    ['query unknown_relation'],
  ],
  [
    'an unknown event says nothing of the query',
    fields({ events: ['x'], query: 'zoom=nope' }),
    ['events unknown_event'],
  ],
  [
    'everything at once',
    fields({ url: 'x', headers: { Host: 'a' }, events: ['x/y'] }, { hasKey: false }),
    ['url invalid_value', 'encryption_key required', 'events unknown_event', 'headers.Host invalid_value'],
  ],
];
for (const [title, found, expected] of judged) test(title, () => assert.deepEqual(found, expected));

for (const key of [
  'whsec_',
  'whsec_%%%',
  'whsec_c2VjcmV',
  'whsec_c2VjcmV0',
  'whsec_c2VjcmV0cw==',
  'any text',
  'WHSEC_%',
  null,
]) {
  test(`${JSON.stringify(key)} is a key`, () => assert.deepEqual(fields({ encryptionKey: key }), []));
}

test('a stored query is judged again when the resource changes, and only then', () => {
  const zoomed = { ...settings, query: 'zoom=items' };
  assert.equal(mergeInput(zoomed, { eventResource: 'customer' }, calm).faults[0]?.field, 'query');
  assert.deepEqual(mergeInput({ ...zoomed, query: 'zoom=gone' }, { name: 'New' }, calm).faults, []);
});

test('what is pending dies with a switch-off and with the address, once', () => {
  assert.equal(stopsDeliveries(settings, { ...settings, isActive: false }), true);
  assert.equal(stopsDeliveries(settings, { ...settings, url: null }), true);
  assert.equal(stopsDeliveries({ ...settings, isActive: false }, settings), false);
  assert.equal(stopsDeliveries({ ...settings, isActive: false }, { ...settings, isActive: false }), false);
  assert.equal(stopsDeliveries(settings, { ...settings, name: 'New', url: 'https://b.example' }), false);
});

test('the state is that of now', () => {
  const now = new Date('2026-11-20T16:00:00Z');
  const after = new Date(now.getTime() + 1);
  const of = (isActive: boolean, pausedUntil: Date | null, consecutiveFailures: number) =>
    stateOf({ isActive, lacks: null, pausedUntil, consecutiveFailures }, now);
  assert.deepEqual(
    [of(true, null, 0), of(true, now, 0), of(true, null, 1), of(true, after, 1), of(false, after, 1)],
    ['ok', 'ok', 'failing', 'paused', 'inactive'],
  );
});
