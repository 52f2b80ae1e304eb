import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headerFaults } from './headers.ts';

const PREFIX = 'Service';

test('ordinary headers pass', () => {
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

test('the prefix is the operator’s', () => {
  assert.equal(headerFaults({ 'Service-X': 'x' }, 'Acme').length, 0);
  assert.equal(headerFaults({ 'ACME-X': 'x' }, 'Acme').length, 1);
});

test('two spellings of one name are one too many', () => {
  assert.match(headerFaults({ 'X-Key': 'a', 'x-key': 'b' }, PREFIX)[0]?.message ?? '', /duplicate/);
});
