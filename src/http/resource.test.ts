import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Problem } from '#core/problem.ts';
import { readQuery, searchedQuery } from './resource.ts';

for (const raw of ['name=%ff', 'name=%C3%28', 'limit=1&name=%', 'name=%zz', 'name=\xff', 'name=a b'])
  test(`${JSON.stringify(raw)} is a 400 that names the parameter`, () =>
    assert.throws(
      () => readQuery(raw),
      ({ status, faults }: Problem) =>
        status === 400 && faults.map(({ code, field }) => `${code} ${field}`).join() === 'malformed_request name',
    ));

test('a UTF-8 parameter is read, a repeated one as often as it occurs', () => {
  const query = readQuery('name=J%C3%BCrgen+K&name=50%25&limit');
  assert.deepEqual(
    [...query],
    [
      ['name', 'Jürgen K'],
      ['name', '50%'],
      ['limit', ''],
    ],
  );
  assert.equal(readQuery('').size, 0);
});

function meant(query: string): string | undefined {
  const found = searchedQuery(new URLSearchParams(query));
  return found && decodeURIComponent(found.toString());
}

const searches: readonly (readonly [what: string, sent: string, meant: string | undefined])[] = [
  ['a query not sent by a search form is kept', 'status=&name=x', undefined],
  ['empty parameters are removed', '_search=1&status=&name=+x+&limit=', 'name=x'],
  ['without parameters it has no filter', '_search=1&status=', ''],
  ['repeated parameters stay repeated', '_search=1&name=a&name=b', 'name=a&name=b'],
  [
    'a time stays as it is, for the list to read',
    '_search=1&date:lessthan=2026-07-01T10:00&response_body:contains=2026-07-01T10:00',
    'date:lessthan=2026-07-01T10:00&response_body=*2026-07-01T10:00*',
  ],
];

for (const [what, sent, expected] of searches) {
  test(`a search: ${what}`, () => assert.equal(meant(sent), expected));
}
