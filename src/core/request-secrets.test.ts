import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { hasHiddenValue, withHiddenQuery, withoutSecrets, withSecrets } from './request-secrets.ts';

const URL_LENGTH_MAX = 1_000;
const hidden = (url: string): string => withHiddenQuery(url, URL_LENGTH_MAX);

const shown: [url: string, shown: string][] = [
  ['https://example.com/hook', 'https://example.com/hook'],
  ['https://example.com/hook?', 'https://example.com/hook?'],
  ['https://example.com/hook?token=abc', 'https://example.com/hook?token=***'],
  ['https://example.com?token=abc&region=north', 'https://example.com?token=***&region=***'],
  ['https://example.com/hook?abc', 'https://example.com/hook?***'],
  ['https://example.com/hook?token=a=b?c&&=x', 'https://example.com/hook?token=***&***&=***'],
  [`https://example.com/?${'&'.repeat(900)}`, 'https://example.com/?***'],
];
for (const [url, expected] of shown)
  test(`${url.slice(0, 60)} is shown without values`, () => assert.equal(hidden(url), expected));

const header = fc.tuple(
  fc.oneof(fc.constantFrom('X-Api-Key', 'constructor', '__proto__', 'toString'), fc.stringMatching(/^[a-z-]{1,8}$/)),
  fc.string(),
);
const request = fc.record(
  {
    url: fc.option(fc.stringMatching(/^https:\/\/[a-z]{1,8}(\/[a-z?=&]{0,20})?$/)),
    headers: fc.array(header).map((entries) => Object.fromEntries(entries)),
  },
  { noNullPrototype: true },
);

test('a request is unchanged after its secrets are taken out and put back', () => {
  fc.assert(
    fc.property(request, (given) => {
      const { secrets, ...row } = withoutSecrets(given);
      assert.ok(!(row.url ?? '').includes('?'));
      assert.deepEqual(new Set(Object.values(row.headers)), new Set(Object.keys(given.headers).map(() => null)));
      assert.deepEqual(withSecrets(row, secrets), given);
    }),
  );
});

test('a redacted URL is no longer than the URL limit, and redacting it again changes nothing', () => {
  const query = fc.string({ unit: fc.constantFrom('&', '=', 'a', '?', '*'), maxLength: 980 });
  fc.assert(
    fc.property(query, (text) => {
      const url = `https://example.com/?${text}`;
      const once = hidden(url);
      assert.ok(once.length <= Math.max(url.length, URL_LENGTH_MAX), once);
      assert.equal(hidden(once), once);
    }),
  );
});

test('the placeholder of a redacted value is found wherever a value may be', () => {
  for (const query of ['***', 'a=***', 'a=b&***', 'a=***&b=c'])
    assert.ok(hasHiddenValue(`https://example.com/?${query}`), query);
  for (const query of ['a=b', 'a=x***', 'a=****', ''])
    assert.ok(!hasHiddenValue(`https://example.com/?${query}`), query);
});
