import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { resourceTypes, testAction } from '#catalog/catalog.ts';
import { storedShape } from '#catalog/resource-document.ts';
import { deliveryDoc, type HeaderDoc } from './attempt.ts';
import type { EventRow } from '../delivery-sql.ts';
import {
  bodyOf,
  headersOf,
  hexSignature,
  Representations,
  standardSignature,
  webhookMessageId,
  type Sending,
} from './attempt-request.ts';
import { anyText } from '../../../test/setup/any-text.ts';

const event: EventRow = {
  id: 1,
  storeId: 1001,
  type: 'transaction',
  resourceId: '5',
  action: 'created',
  version: 1,
  nonce: 1,
  baseUrl: 'https://api.example.com',
  dateCreated: new Date('2026-11-20T16:05:03.004Z'),
  body: '{"id":5}',
  traceContext: null,
};

const representations = new Representations('svc');

const memberNames = fc.oneof(
  fc.constantFrom('id', '7', '07', '-1', '', '_links', '_embedded', 'a"b', '\u2028', 'toString'),
  anyText({ maxLength: 6 }),
);
const values = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom('_links', 1e21, -0, '\ud800'),
  fc.dictionary(memberNames, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
);
const eventWith = (resource: object, given: Partial<EventRow> = {}): EventRow => ({
  ...event,
  body: JSON.stringify(resource),
  ...given,
});
const events = fc
  .tuple(
    fc.dictionary(memberNames, values, { maxKeys: 5 }).filter((resource) => !Object.hasOwn(resource, '__proto__')),
    fc.constantFrom(...resourceTypes()),
    anyText({ minLength: 1, maxLength: 8 }).filter((id) => id.isWellFormed()),
    fc.constantFrom('https://api.example.com', 'http://[::1]:8080'),
    fc.nat(),
  )
  .map(([resource, type, resourceId, baseUrl, storeId]) => eventWith(resource, { type, resourceId, baseUrl, storeId }));

test('a spliced text equals the rendered one, byte for byte', () => {
  fc.assert(
    fc.property(events, (one) => {
      const spliced = representations.spliced(one);
      if (spliced !== undefined)
        assert.deepEqual(spliced, representations.rendered(one, storedShape('', null), 'json'));
    }),
    { numRuns: 1_000 },
  );
});

test('typical published JSON is spliced', () => {
  assert.ok(representations.spliced(eventWith({ id: 5, total: 9.5, customer: { first_name: 'Ada' } })));
});

for (const resource of [{ id: 5, _embedded: {} }, { id: 5, _links: {} }, { 7: 'first', id: 5 }, {}]) {
  test(`a text that must be parsed is not spliced: ${JSON.stringify(resource)}`, () => {
    assert.equal(representations.spliced(eventWith(resource)), undefined);
  });
}

test('two webhooks with the same query and different formats get different bodies', () => {
  const body = bodyOf(event);
  const shape = storedShape('fields=id', null);
  const [json, automation, again] = (['json', 'partner_automation', 'json'] as const).map((format) =>
    Buffer.from(representations.of(body, { format, query: 'fields=id', shape })).toString(),
  );
  assert.equal(automation, '{"id":5,"event":"transaction/created"}');
  assert.match(json ?? '', /"_links"/);
  assert.equal(again, json);
});

const body = Buffer.from('{"id":1,"name":"Zoë"}');
const id = 'msg_abc';
const timestamp = Math.floor(Date.now() / 1000);

const signatureHeaders = (signature: string) => ({
  'webhook-id': id,
  'webhook-timestamp': String(timestamp),
  'webhook-signature': signature,
});

test('the standardwebhooks package verifies a signature under a key with the prefix whsec_', () => {
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const signature = standardSignature(body, id, timestamp, key);
  assert.deepEqual(new Webhook(key).verify(body.toString(), signatureHeaders(signature)), { id: 1, name: 'Zoë' });
});

test('any other key signs with its UTF-8 bytes', () => {
  const key = 'schlüssel';
  const signature = standardSignature(body, id, timestamp, key);
  assert.doesNotThrow(() =>
    new Webhook(Buffer.from(key), { format: 'raw' }).verify(body.toString(), signatureHeaders(signature)),
  );
});

for (const key of [
  'whsec_not base64!',
  'whsec_',
  'whsec_c2VjcmV',
  'whsec_c2VjcmV0\n',
  'whsec_c2VjcmV1=',
  'whsec_-_-_',
]) {
  test(`whsec_ followed by invalid base64 is a key like any other: ${JSON.stringify(key)}`, () => {
    const signature = standardSignature(body, id, timestamp, key);
    assert.doesNotThrow(() =>
      new Webhook(Buffer.from(key), { format: 'raw' }).verify(body.toString(), signatureHeaders(signature)),
    );
  });
}

test('a signature does not verify another body', () => {
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const signature = standardSignature(body, id, timestamp, key);
  assert.throws(() => new Webhook(key).verify('{"id":2}', signatureHeaders(signature)));
});

test('the hex signature is HMAC-SHA256 under the whole key string', () => {
  const key = 'whsec_AAAA';
  assert.equal(hexSignature(body, key), createHmac('sha256', key).update(body).digest('hex'));
});

test('a webhook-id differs by event, by webhook and by the random part', () => {
  const ids = [
    webhookMessageId({ id: 1, nonce: 2 }, 3),
    webhookMessageId({ id: 9, nonce: 2 }, 3),
    webhookMessageId({ id: 1, nonce: 9 }, 3),
    webhookMessageId({ id: 1, nonce: 2 }, 9),
    webhookMessageId({ id: 1, nonce: 2, isTest: true }, 3),
  ];
  assert.equal(new Set(ids).size, 5);
  assert.equal(webhookMessageId({ id: 1, nonce: 2 }, 3), ids[0]);
});

const target = {
  storeDomain: 'store.example.com',
  headers: {},
  format: 'json',
  url: new URL('https://hooks.example.com/'),
} satisfies Sending['target'];
function sent(own: Partial<Sending> = {}): Map<string, string> {
  const list = headersOf({
    event,
    target,
    keys: { current: 'old', next: null },
    webhookId: 1,
    attempt: 1,
    body: Buffer.from('{}'),
    contentType: 'application/hal+json',
    now: new Date('2026-11-20T16:05:03Z'),
    headerPrefix: 'Service',
    userAgent: 'Halcyon/test',
    ...own,
  });
  const names = list.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
  assert.equal(new Set(names).size, names.length, 'a header was set twice');
  return new Map(names.map((name, index) => [name, list[index * 2 + 1] ?? '']));
}
const sitebuilder = { ...target, format: 'partner_sitebuilder' } as const;

test('for any extra headers and event names, no header is split, forged or set twice', () => {
  const text = fc.oneof(
    anyText(),
    fc.constantFrom('a\r\nX-Forged: 1', 'ü', '\ud800', 'Webhook-ID', 'content-type', 'Service-Store-ID', 'x-team'),
  );
  fc.assert(
    fc.property(fc.dictionary(text, text), text, text, (headers, action, storeDomain) => {
      for (const [name, value] of sent({ target: { ...target, headers, storeDomain }, event: { ...event, action } })) {
        assert.match(name, /^[!#$%&'*+\-.^_`|~0-9a-z]+$/);
        assert.match(value, /^[\x20-\x7e]*$/);
      }
    }),
  );
  const headers = { 'X-Team': 'Ops', 'X-Split': 'a\r\nX-Forged: 1', 'X-Grün': '1' };
  const found = sent({ target: { ...target, headers } });
  assert.deepEqual(
    [...found.keys()].filter((name) => name.startsWith('x-')),
    ['x-team'],
  );
});

test("an extra header allowed under an earlier prefix cannot forge the delivery's own headers", () => {
  const headers = { 'Acme-Webhook-Signature-Next': 'forged', 'Service-Store-ID': '1' };
  const found = sent({ target: { ...target, headers }, headerPrefix: 'Acme' });
  assert.equal(found.has('acme-webhook-signature-next'), false);
  assert.equal(found.get('service-store-id'), '1');
});

test('the headers of a CloudEvent are encoded, and no header of the webhook replaces one', () => {
  const binary = { ...target, format: 'cloudevents_binary', headers: { 'CE-Id': 'forged', 'Ce-Mine': '1' } } as const;
  const found = sent({ target: binary, event: { ...event, resourceId: 'a "ü" %' } });
  assert.equal(found.get('ce-subject'), 'transactions/a%2520%2522%25C3%25BC%2522%2520%2525');
  assert.match(found.get('ce-id') ?? '', /^evt_/);
  assert.equal(found.get('ce-time'), '2026-11-20T16:05:03.004Z');
  assert.equal(found.get('ce-mine'), '1');
});

test('the key of a site builder is sent as its token and signs nothing', () => {
  const found = sent({ target: sitebuilder, keys: { current: 'token', next: 'later' } });
  assert.equal(found.get('authorization'), 'Bearer token');
  assert.deepEqual(
    [...found.keys()].filter((name) => name.includes('signature')),
    [],
  );
  assert.equal(sent({ target: sitebuilder, keys: { current: null, next: null } }).has('authorization'), false);
});

test('a token is sent neither over plain http nor where it would split the header', () => {
  const plain = { ...sitebuilder, url: new URL('http://127.0.0.1/') };
  assert.throws(() => sent({ target: plain }), /https only/);
  assert.throws(() => sent({ target: sitebuilder, keys: { current: 'a\r\nX: b', next: null } }), /characters/);
});

test('each header of a delivery is documented, and each documented one is sent', () => {
  const fixed = new Set(['content-type', 'user-agent', 'accept-encoding']);
  const { headers } = deliveryDoc('Acme');
  const documented = (isSent: (header: HeaderDoc) => boolean): string[] =>
    headers.filter(isSent).map(({ name }) => name.toLowerCase());
  const namesSent = (more: Pick<Sending, 'keys'> & Partial<Sending>): string[] =>
    [...sent({ headerPrefix: 'Acme', ...more }).keys()].filter((name) => !fixed.has(name));
  const traceContext = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01 a=1`;
  const sample = { ...event, isTest: true, traceContext } as const;
  assert.deepEqual(
    namesSent({ keys: { current: 'old', next: 'new' }, event: sample }).toSorted(),
    documented(() => true).toSorted(),
  );
  assert.deepEqual(
    namesSent({ keys: { current: 'old', next: null } }).toSorted(),
    documented(({ isOptional }) => isOptional !== true).toSorted(),
  );
});

test('the name that an endpoint has allowed is sent and documented if there is one', () => {
  assert.equal(sent({ requestOrigin: 'shop.example.com' }).get('webhook-request-origin'), 'shop.example.com');
  assert.equal(sent({}).has('webhook-request-origin'), false);
  const names = (isOriginSent: boolean) => deliveryDoc('Acme', { isOriginSent }).headers.map(({ name }) => name);
  assert.deepEqual(
    [names(true).at(-1), names(false).includes('webhook-request-origin')],
    ['webhook-request-origin', false],
  );
});

test('a sample alone is marked as a test, in the id that the signature covers and in a header', () => {
  const marksOf = (action: string) => {
    const found = sent({ event: bodyOf({ ...event, action }).event });
    const [message, header] = ['webhook-id', 'service-webhook-test'].map((name) => found.get(name));
    return [found.get('service-webhook-event'), message?.startsWith('msg_test_'), header];
  };
  assert.deepEqual(marksOf(testAction('uninstalled')), ['transaction/uninstalled', true, 'true']);
  assert.deepEqual(marksOf(testAction(null)), ['transaction/test', true, 'true']);
  assert.deepEqual(marksOf('uninstalled'), ['transaction/uninstalled', false, undefined]);
});
