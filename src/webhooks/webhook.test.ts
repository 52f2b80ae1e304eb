import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  mergeInput,
  stopsDeliveries,
  resolveSubscription,
  headerFaults,
  type MergeContext,
  addressFault,
} from './webhook.ts';
import { defaults, parseInput, type Settings, type Subscription } from './webhook-fields.ts';
import { stateOf } from './webhook-document.ts';
import { eventsOf, resourceTypes } from '#catalog/catalog.ts';

const settings: Settings = {
  ...defaults,
  name: 'Orders',
  format: 'json',
  url: 'https://example.com/hook',
  eventResource: 'transaction',
  events: ['transaction/created'],
};
const calm: MergeContext = {
  key: 'a key',
  forbidden: null,
  headerPrefix: 'Service',
  isOfApp: false,
  isOfPlatformStore: false,
};

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
  test(`${JSON.stringify(body)} is parsed as ${JSON.stringify(input)}`, () =>
    assert.deepEqual(parseInput(body), input));
}

const fields = (input: Parameters<typeof mergeInput>[1], context: Partial<typeof calm> | { forbidden: string } = {}) =>
  mergeInput(settings, input, { ...calm, ...context }).faults.map((fault) => `${fault.field} ${fault.code}`);

const faultCases: [string, string[], string[]][] = [
  ['a json webhook without a key', fields({}, { key: null }), ['encryption_key required']],
  ['another format without a key', fields({ format: 'partner_automation' }, { key: null }), []],
  ['a name of blanks', fields({ name: '   ' }), ['name invalid_value']],
  ['an invisible name', fields({ name: '\u200b' }), ['name invalid_value']],
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
    'with an unknown event the query is not checked',
    fields({ events: ['x'], query: 'zoom=nope' }),
    ['events unknown_event'],
  ],
  [
    'several faults at once',
    fields({ url: 'x', headers: { Host: 'a' }, events: ['x/y'] }, { key: null }),
    ['url invalid_value', 'encryption_key required', 'events unknown_event', 'headers.Host invalid_value'],
  ],
];
for (const [title, found, expected] of faultCases) test(title, () => assert.deepEqual(found, expected));

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
  test(`${JSON.stringify(key)} is a valid key`, () => assert.deepEqual(fields({ encryptionKey: key }), []));
}

test('a stored query is validated again when the resource changes, and only then', () => {
  const zoomed = { ...settings, query: 'zoom=items' };
  assert.equal(mergeInput(zoomed, { eventResource: 'customer' }, calm).faults[0]?.field, 'query');
  assert.deepEqual(mergeInput({ ...zoomed, query: 'zoom=gone' }, { name: 'New' }, calm).faults, []);
});

test('disabling a webhook or removing its address ends pending deliveries, once', () => {
  assert.equal(stopsDeliveries(settings, { ...settings, isActive: false }), true);
  assert.equal(stopsDeliveries(settings, { ...settings, url: null }), true);
  assert.equal(stopsDeliveries({ ...settings, isActive: false }, settings), false);
  assert.equal(stopsDeliveries({ ...settings, isActive: false }, { ...settings, isActive: false }), false);
  assert.equal(stopsDeliveries(settings, { ...settings, name: 'New', url: 'https://b.example' }), false);
});

test('the state is the present one', () => {
  const now = new Date('2026-11-20T16:00:00Z');
  const after = new Date(now.getTime() + 1);
  const of = (isActive: boolean, pausedUntil: Date | null, consecutiveFailures: number) =>
    stateOf({ isActive, lacks: null, pausedUntil, consecutiveFailures }, now);
  assert.deepEqual(
    [of(true, null, 0), of(true, now, 0), of(true, null, 1), of(true, after, 1), of(false, after, 1)],
    ['ok', 'ok', 'failing', 'paused', 'inactive'],
  );
});

const none: Subscription = { eventResource: null, events: [] };
const captured: Subscription = { eventResource: 'transaction', events: ['transaction/captured'] };

for (const type of resourceTypes()) {
  test(`event_resource ${type} alone means every event of it`, () => {
    const { faults, ...subscription } = resolveSubscription({ eventResource: type }, none);
    assert.deepEqual([subscription, faults], [{ eventResource: type, events: eventsOf(type) }, []]);
  });
}

const cases: [string, Parameters<typeof resolveSubscription>[0], Subscription, Subscription][] = [
  ['neither: a new webhook has no events', {}, none, none],
  ['neither: both stay', {}, captured, captured],
  ['events alone choose their resource', { events: ['transaction/captured'] }, none, captured],
  [
    'events alone replace another resource',
    { events: ['customer/created'] },
    captured,
    { eventResource: 'customer', events: ['customer/created'] },
  ],
  ['both agree', { eventResource: 'transaction', events: ['transaction/captured'] }, none, captured],
  [
    'the resource alone replaces the events',
    { eventResource: 'customer' },
    captured,
    { eventResource: 'customer', events: eventsOf('customer') },
  ],
  ['clearing the resource clears the events', { eventResource: null }, captured, none],
  ['clearing the events clears the resource', { events: [] }, captured, none],
  ['null beside events is ignored', { eventResource: null, events: ['transaction/captured'] }, none, captured],
  [
    'an empty list beside a resource is ignored',
    { eventResource: 'changelog', events: [] },
    none,
    { eventResource: 'changelog', events: ['changelog/created'] },
  ],
  [
    'an event named twice counts once, in the order given',
    { events: ['transaction/voided', 'transaction/created', 'transaction/voided'] },
    none,
    { eventResource: 'transaction', events: ['transaction/voided', 'transaction/created'] },
  ],
];
for (const [title, input, present, expected] of cases) {
  test(title, () => assert.deepEqual(resolveSubscription(input, present), { ...expected, faults: [] }));
}

const faulty: [string, Parameters<typeof resolveSubscription>[0], RegExp[]][] = [
  ['an unknown event is named', { events: ['transaction/exploded'] }, [/"transaction\/exploded"/]],
  ['a refeed is not subscribed to', { events: ['transaction/refeed'] }, [/"transaction\/refeed"/]],
  ['an unknown resource in an event is named', { events: ['cart/created'] }, [/"cart\/created"/]],
  ['names from Object.prototype are unknown', { events: ['constructor/created'] }, [/constructor/]],
  ['each unknown event is named', { events: ['a/b', 'transaction/created', 'c'] }, [/"a\/b"/, /"c"/]],
  ['events of two resources', { events: ['transaction/created', 'customer/created'] }, [/"customer\/created".* same /]],
  [
    'an event of another resource',
    { eventResource: 'customer', events: ['customer/created', 'transaction/created'] },
    [/"transaction\/created".* customer$/],
  ],
];
for (const [title, input, messages] of faulty) {
  test(title, () => {
    const { faults } = resolveSubscription(input, none);
    assert.equal(faults.length, messages.length);
    for (const [i, message] of messages.entries()) assert.match(faults[i]?.message ?? '', message);
    assert.deepEqual(new Set(faults.map((fault) => fault.field)), new Set(['events']));
  });
}

const PREFIX = 'Service';

test('ordinary headers are accepted', () => {
  assert.deepEqual(headerFaults({ 'X-Api-Key': 'abc, def; "q"', 'x_tenant!': '' }, PREFIX), []);
});

const refused: [string, string, RegExp][] = [
  ...[
    'Host',
    'content-length',
    'Content-Encoding',
    'Content-Type',
    'TRANSFER-ENCODING',
    'connection',
    'keep-alive',
    'authorization',
    'cookie',
    'user-agent',
    'expect',
    'upgrade',
    'te',
    'trailer',
    'accept-encoding',
    'webhook-id',
    'Webhook-Anything',
    'Service-Webhook-Event',
    'service-x',
  ].map((name): [string, string, RegExp] => [name, 'x', /is reserved/]),
  ['', 'x', /not a valid header name/],
  ['X Key', 'x', /not a valid header name/],
  ['X-Key:', 'x', /not a valid header name/],
  ['X-Kéy', 'x', /not a valid header name/],
  ['x'.repeat(101), 'x', /not a valid header name/],
  ['X-Key', 'a\r\nInjected: b', /printable/],
  ['X-Key', 'a\nb', /printable/],
  ['X-Key', 'a\u0000', /printable/],
  ['X-Key', 'tab\there', /printable/],
  ['X-Key', 'grün', /printable/],
];
for (const [name, value, reason] of refused) {
  test(`the header ${JSON.stringify(name).slice(0, 30)}: ${JSON.stringify(value)} is refused`, () => {
    const [fault, ...more] = headerFaults({ [name]: value }, PREFIX);
    assert.deepEqual(more, []);
    assert.match(fault?.message ?? '', reason);
    assert.equal(fault?.field, `headers.${name}`);
  });
}

test('the prefix is that of the operator', () => {
  assert.equal(headerFaults({ 'Service-X': 'x' }, 'Acme').length, 0);
  assert.equal(headerFaults({ 'ACME-X': 'x' }, 'Acme').length, 1);
});

test('two spellings of one header name are refused', () => {
  assert.match(headerFaults({ 'X-Key': 'a', 'x-key': 'b' }, PREFIX)[0]?.message ?? '', /duplicate/);
});

const fine = [
  'https://example.com',
  'http://example.com/hook',
  'HTTPS://EXAMPLE.com:8443/a?b=c@d&e=%20',
  'https://müller.example/grüße',
  'http://[2001:db8::1]/x',
  'http://127.0.0.1:9/',
  'https://example.com/path@with-at',
];
for (const url of fine) test(`${url} can be a webhook's url`, () => assert.equal(addressFault(url), undefined));

const wrong: [string, RegExp][] = [
  ['example.com/hook', /absolute/],
  ['/hook', /absolute/],
  ['//example.com/hook', /absolute/],
  ['ftp://example.com', /absolute/],
  ['javascript:alert(1)', /absolute/],
  ['https:example.com', /absolute/],
  ['https:///example.com', /absolute/],
  ['https://', /absolute/],
  ['http://exa mple.com', /blanks/],
  [' https://example.com', /blanks/],
  ['https://example.com/\r\nHost: x', /blanks/],
  ['https://example.com/\u0007', /blanks/],
  ['https://example.com\\@evil.example', /backslashes/],
  ['http://[::1', /absolute/],
  ['http://a:99999/', /absolute/],
  ['http://a:0/', /port 0/],
  ['https://a:0', /port 0/],
  ['https://a:000?x', /port 0/],
  ['http://[::1]:0/', /port 0/],
  ['https://user@example.com', /user-info/],
  ['https://user:secret@example.com', /user-info/],
  ['https://:secret@example.com', /user-info/],
  ['https://@example.com', /user-info/],
  ['https://example.com/#part', /fragment/],
  ['https://example.com/#', /fragment/],
];
for (const [url, reason] of wrong) {
  test(`${JSON.stringify(url)} cannot be a webhook's url`, () => assert.match(addressFault(url) ?? '', reason));
}
