/** Every constraint and default of a webhook's fields, as in the specification's table and the contract. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HIDDEN_FROM_APPS, resourceTypes } from '#catalog/catalog.ts';
import { faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, a } = await startWebhookApi();
const collection = `/stores/${a}/webhooks`;
const post = (change: object) => call('POST', collection, { body: { ...minimal, ...change } });

const accepted: [string, object, object][] = [
  ['name of 255 characters', { name: 'x'.repeat(255) }, {}],
  ['name of 255 code points outside the first plane', { name: '😀'.repeat(255) }, {}],
  ['format partner_automation without a key', { format: 'partner_automation', encryption_key: null }, {}],
  ['format partner_sitebuilder', { format: 'partner_sitebuilder', url: 'https://example.com' }, {}],
  ['version "2"', { version: '2' }, { version: '2' }],
  ['version 2', { version: 2 }, { version: '2' }],
  ['version null', { version: null }, { version: '2' }],
  ['url of 1000 characters', { url: `https://example.com/${'x'.repeat(980)}` }, {}],
  ['url null', { url: null }, {}],
  ['url ""', { url: '' }, { url: null }],
  ['query of 1000 characters', { event_resource: 'customer', query: `fields=${'x'.repeat(993)}` }, {}],
  ['query ""', { query: '' }, { query: null }],
  ['filter of 1000 characters', { filter: `p=${'x'.repeat(998)}` }, {}],
  ['filter ""', { filter: '' }, { filter: null }],
  ['filter by a pointer', { filter: '/_embedded/svc:items/0/code:in=a,b&total_order:greaterthan=100' }, {}],
  ['encryption_key of 1000 characters', { encryption_key: 'k'.repeat(1000) }, {}],
  ...resourceTypes()
    .filter((type) => !HIDDEN_FROM_APPS.includes(type))
    .map((type): [string, object, object] => [`event_resource ${type}`, { event_resource: type }, {}]),
  ['event_resource ""', { event_resource: '' }, { event_resource: null, events: [] }],
  ['events alone', { events: ['customer/created'] }, { event_resource: 'customer' }],
  ...(['1', 1, true] as const).map((v): [string, object, object] => [
    `is_active ${v}`,
    { is_active: v },
    { is_active: '1' },
  ]),
  ...(['0', 0, false] as const).map((v): [string, object, object] => [
    `is_active ${typeof v} ${v}`,
    { is_active: v },
    { is_active: '0', state: 'inactive' },
  ]),
  ['is_active "", which PHP sends for false', { is_active: '' }, { is_active: '0', state: 'inactive' }],
  ['query before events', { query: 'zoom=items,subscription&fields=id' }, { event_resource: null }],
  ['encryption_key that is no base64 after whsec_', { encryption_key: 'whsec_%%%' }, {}],
  ['20 headers', { headers: Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`X-${i}`, 'v'])) }, {}],
  ['headers null', { headers: null }, { headers: {} }],
  ['rate_per_second 1', { rate_per_second: 1 }, {}],
  ['rate_per_second 1000', { rate_per_second: 1000 }, {}],
  ['rate_per_second null', { rate_per_second: null }, {}],
  ['retry_profile long', { retry_profile: 'long' }, {}],
  ['ordering resource', { ordering: 'resource' }, {}],
  ['ordering ""', { ordering: '' }, { ordering: null }],
];
for (const [title, change, read] of accepted) {
  test(`accepted: ${title}`, async () => {
    const { status, body } = await post(change);
    assert.equal(status, 201, JSON.stringify(body));
    const expected = { ...change, ...read };
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, body[name]])), expected);
  });
}

const refused: [string, object, string[]][] = [
  ['no name', { name: undefined }, ['name required']],
  ['name ""', { name: '' }, ['name too_short']],
  ['name null', { name: null }, ['name invalid_value']],
  ['name of 256 characters', { name: 'x'.repeat(256) }, ['name too_long']],
  ['name of 256 code points', { name: '😀'.repeat(256) }, ['name too_long']],
  ['no format', { format: undefined }, ['format required']],
  ['format xml', { format: 'xml' }, ['format invalid_value']],
  ['version 3', { version: 3 }, ['version invalid_value']],
  ['version "1"', { version: '1' }, ['version invalid_value']],
  ['url of 1001 characters', { url: `https://example.com/${'x'.repeat(981)}` }, ['url too_long']],
  ['url 5', { url: 5 }, ['url invalid_value']],
  ['url relative', { url: '/hook' }, ['url invalid_value']],
  ['url ftp', { url: 'ftp://example.com' }, ['url invalid_value']],
  ['url with port 0', { url: 'http://example.com:0/' }, ['url invalid_value']],
  ['url with user-info', { url: 'https://u:p@example.com' }, ['url invalid_value']],
  ['url with a fragment', { url: 'https://example.com/#x' }, ['url invalid_value']],
  ['url at a forbidden address', { url: 'http://10.0.0.1/' }, ['url forbidden_address']],
  ['query of 1001 characters', { query: `fields=${'x'.repeat(994)}` }, ['query too_long']],
  [
    'query with an unknown modifier',
    { query: 'zoom=items&x=1', event_resource: 'transaction' },
    ['query unknown_parameter'],
  ],
  ['event_resource app by an app', { event_resource: 'app' }, ['event_resource invalid_value']],
  ['event_resource operator_event', { event_resource: 'operator_event' }, ['event_resource invalid_value']],
  ['filter of 1001 characters', { filter: `p=${'x'.repeat(999)}` }, ['filter too_long']],
  ['filter with an unknown operator', { filter: 'total_order:above=100' }, ['filter invalid_value']],
  ['filter without a condition', { filter: '&' }, ['filter invalid_value']],
  ['filter with two faults', { filter: 'a=1&a=2&date_created=x' }, ['filter invalid_value', 'filter invalid_value']],
  [
    'filter of 21 conditions',
    { filter: Array.from({ length: 21 }, (_, n) => `p${n}=1`).join('&') },
    ['filter invalid_value'],
  ],
  ['query before events with a relation of no resource', { query: 'zoom=nope' }, ['query unknown_relation']],
  ['query with an unknown relation', { query: 'zoom=nope', event_resource: 'transaction' }, ['query unknown_relation']],
  [
    'query with a relation of another resource',
    { query: 'zoom=items', event_resource: 'customer' },
    ['query unknown_relation'],
  ],
  ['json without a key', { encryption_key: undefined }, ['encryption_key required']],
  ['json with key null', { encryption_key: null }, ['encryption_key required']],
  ['json with key ""', { encryption_key: '' }, ['encryption_key required']],
  ['key of 1001 characters', { encryption_key: 'k'.repeat(1001) }, ['encryption_key too_long']],
  ['event_resource cart', { event_resource: 'cart' }, ['event_resource invalid_value']],
  ['an unknown event', { events: ['transaction/exploded'] }, ['events unknown_event']],
  ['events of two resources', { events: ['transaction/created', 'customer/created'] }, ['events invalid_value']],
  [
    'an event of another resource',
    { event_resource: 'customer', events: ['transaction/created'] },
    ['events invalid_value'],
  ],
  ['events as text', { events: 'transaction/created' }, ['events invalid_value']],
  ['an event as number', { events: [1] }, ['events.0 invalid_value']],
  ['is_active 2', { is_active: 2 }, ['is_active invalid_value']],
  ['is_active null', { is_active: null }, ['is_active invalid_value']],
  [
    '21 headers',
    { headers: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`X-${i}`, 'v'])) },
    ['headers invalid_value'],
  ],
  ['a reserved header', { headers: { Authorization: 'x' } }, ['headers.Authorization invalid_value']],
  ['a header with the operator’s prefix', { headers: { 'Service-X': 'x' } }, ['headers.Service-X invalid_value']],
  ['a header with a line break', { headers: { 'X-A': 'a\r\nb' } }, ['headers.X-A invalid_value']],
  ['a header that is no text', { headers: { 'X-A': 1 } }, ['headers.X-A invalid_value']],
  ['rate_per_second 0', { rate_per_second: 0 }, ['rate_per_second invalid_value']],
  ['rate_per_second 1001', { rate_per_second: 1001 }, ['rate_per_second invalid_value']],
  ['rate_per_second 1.5', { rate_per_second: 1.5 }, ['rate_per_second invalid_value']],
  ['retry_profile day', { retry_profile: 'day' }, ['retry_profile invalid_value']],
  ['ordering webhook', { ordering: 'webhook' }, ['ordering invalid_value']],
  ['an unknown property', { colour: 'red' }, ['colour unknown_property']],
  ['__proto__', JSON.parse('{"__proto__":1}') as object, ['__proto__ unknown_property']],
];
for (const [title, change, faults] of refused) {
  test(`rejected: ${title}`, async () => {
    const body = { ...minimal, ...change };
    if (Object.hasOwn(change, '__proto__')) Object.defineProperty(body, '__proto__', { value: 1, enumerable: true });
    const reply = await call('POST', collection, { body });
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, ...faults]);
  });
}

test('all errors of a body are reported together, those of the schema and those of the rules', async () => {
  const body = { format: 'json', url: 'x', colour: 1, events: ['a/b'], rate_per_second: 0, headers: { Host: 'x' } };
  const reply = await call('POST', collection, { body });
  const expected = [
    'name required',
    'colour unknown_property',
    'rate_per_second invalid_value',
    'url invalid_value',
    'encryption_key required',
    'events unknown_event',
    'headers.Host invalid_value',
  ];
  assert.deepEqual([reply.status, reply.body['total']], [400, expected.length]);
  assert.deepEqual(faultsIn(reply).toSorted(), expected.toSorted());
  const { body: webhook } = await post({});
  const patched = await call('PATCH', `/webhooks/${String(webhook['id'])}`, { body: { name: 1, encryption_key: '' } });
  assert.deepEqual(faultsIn(patched), ['name invalid_value', 'encryption_key required']);
});

test('a form without a value for is_active disables a webhook', async () => {
  const { body: made } = await post({});
  const at = `/webhooks/${String(made['id'])}`;
  const { status, body } = await call('PATCH', at, { body: new URLSearchParams({ is_active: '' }) });
  assert.deepEqual([status, body['is_active']], [200, '0']);
});

test('a query that was set before the events is validated again when the events are set', async () => {
  const { body: made } = await post({ query: 'zoom=items' });
  const at = `/webhooks/${String(made['id'])}`;
  assert.deepEqual(faultsIn(await call('PATCH', at, { body: { event_resource: 'customer' } })), [
    'query unknown_relation',
  ]);
  const { status, body } = await call('PATCH', at, { body: { events: ['transaction/created'] } });
  assert.deepEqual([status, body['query'], body['event_resource']], [200, 'zoom=items', 'transaction']);
});

test('the fields parameter works on one webhook as on the collection', async () => {
  const { body: made } = await post({});
  const at = `/webhooks/${String(made['id'])}`;
  const { _links: links, ...rest } = (await call('GET', `${at}?fields=name,url`)).body;
  assert.deepEqual(rest, { name: made['name'], url: made['url'] });
  assert.deepEqual(Object.keys(links), Object.keys(made._links));
  for (const [query, fault] of [
    ['fields=nope', 'fields unknown_property'],
    ['fields=', 'fields invalid_parameter'],
    ['zoom=items', 'zoom unknown_parameter'],
  ]) {
    const reply = await call('GET', `${at}?${query}`);
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, fault]);
    assert.deepEqual(faultsIn(await call('GET', `${collection}?${query}`)), [fault]);
  }
});

test('the messages name the allowed values, without alternative spellings', async () => {
  const reply = await post({ format: 'x', version: 'x', is_active: 'x', event_resource: 'x', retry_profile: 'x' });
  const messages = (reply.body._embedded['svc:errors'] ?? []).map((fault) => String(fault['message']));
  assert.deepEqual(
    messages.map((message) => message.replace(/ .*:/, ':')).toSorted((x, y) => x.localeCompare(y)),
    [
      `event_resource: ${resourceTypes().join(', ')}`,
      'format: json, partner_automation, partner_sitebuilder, cloudevents, cloudevents_binary',
      'is_active: 1, 0, true, false',
      'retry_profile: hour, long',
      'version: 2',
    ],
  );
});

test('a setting of the operator allows further versions', async () => {
  const { call: other, a: store } = await startWebhookApi({ versions: '3,beta' });
  for (const [version, read] of [
    [3, '3'],
    ['3', '3'],
    ['beta', 'beta'],
    [2, '2'],
  ]) {
    const { status, body } = await other('POST', `/stores/${store}/webhooks`, { body: { ...minimal, version } });
    assert.deepEqual([status, body['version']], [201, read]);
  }
});
