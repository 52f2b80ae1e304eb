import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differenceToNearest } from './consent-page.ts';

const REGISTERED = 'https://app.example.com/cb?keep=1';

const cases: readonly (readonly [given: string, difference: string])[] = [
  ['http://app.example.com/cb?keep=1', 'the scheme'],
  ['HTTPS://app.example.com/cb?keep=1', 'upper and lower case in the scheme'],
  ['https://user:x@app.example.com/cb?keep=1', 'the user-info'],
  ['https://app.example.com@evil.example/cb?keep=1', 'the user-info, the host'],
  ['https://evil.example/cb?keep=1', 'the host'],
  ['https://APP.example.com/cb?keep=1', 'upper and lower case in the host'],
  ['https://app.example.com:443/cb?keep=1', 'the port'],
  ['https://app.example.com:/cb?keep=1', 'the spelling'],
  ['https://app.example.com/cb/?keep=1', 'a slash at the end of the path'],
  ['https://app.example.com/CB?keep=1', 'upper and lower case in the path'],
  ['https://app.example.com/x?keep=1', 'the path'],
  ['https://app.example.com/cb', 'the query'],
  ['https://app.example.com/cb?keep=1#', 'the fragment'],
  ['http://app.example.com:80/x', 'the scheme, the port, the path, the query'],
  ['nonsense', 'the scheme, the host, the path, the query'],
];

for (const [given, difference] of cases)
  test(`${given} differs in ${difference}`, () =>
    assert.equal(differenceToNearest(given, [REGISTERED]).join(', '), difference));

test('the closest registered address is the one on the same host', () => {
  const registered = ['https://other.example.com/cb', 'https://app.example.com/some/where?x=1'];
  assert.deepEqual(differenceToNearest('https://app.example.com/cb', registered), ['the path', 'the query']);
  assert.deepEqual(differenceToNearest('https://app.example.com/cb', []), []);
});
