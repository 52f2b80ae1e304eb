import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressFault } from './webhook.ts';

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
