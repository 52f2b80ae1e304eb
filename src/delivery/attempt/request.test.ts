import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { headersOf, type Sending } from './request.ts';

const event: Sending['event'] = {
  id: 1,
  storeId: 1001,
  type: 'transaction',
  resourceId: '5',
  action: 'created',
  version: 1,
  nonce: 1,
  baseUrl: 'https://api.example.com',
  body: '{"id":5}',
};
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

test('whatever the extra headers and the event are called, no header is split, forged or set twice', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
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

test('an extra header that was allowed under another prefix cannot forge what a delivery says of itself', () => {
  const headers = { 'Acme-Webhook-Signature-Next': 'forged', 'Service-Store-ID': '1' };
  const found = sent({ target: { ...target, headers }, headerPrefix: 'Acme' });
  assert.equal(found.has('acme-webhook-signature-next'), false);
  assert.equal(found.get('service-store-id'), '1');
});

test('the key of a site builder is the token that it wants, and signs nothing', () => {
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
