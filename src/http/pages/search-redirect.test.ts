import assert from 'node:assert/strict';
import { test } from 'node:test';
import { searchedQuery } from '../resource.ts';

function meant(query: string): string | undefined {
  const found = searchedQuery(new URLSearchParams(query));
  return found && decodeURIComponent(found.toString());
}

const searches: readonly (readonly [what: string, sent: string, meant: string | undefined])[] = [
  ['a query not sent by a search form is kept', 'status=&name=x', undefined],
  ['empty parameters are removed', '_search=UTC&status=&name=+x+&limit=', 'name=x'],
  ['without parameters it has no filter', '_search=UTC&status=', ''],
  ['repeated parameters stay repeated', '_search=UTC&name=a&name=b', 'name=a&name=b'],
  ['a summer time', '_search=Europe/Berlin&date:lessthan=2026-07-01T10:00', 'date:lessthan=2026-07-01T10:00:00+0200'],
  ['a winter time', '_search=Europe/Berlin&date:lessthan=2026-01-01T10:00', 'date:lessthan=2026-01-01T10:00:00+0100'],
  ['a time in UTC', '_search=Europe/Berlin&date=2026-07-01T10:00:00Z', 'date=2026-07-01T10:00:00Z'],
  ['an invalid day', '_search=UTC&date:lessthan=2026-02-31T10:00', 'date:lessthan=2026-02-31T10:00'],
  [
    'a text that looks like a time stays as it is',
    '_search=Europe/Berlin&response_body:contains=2026-07-01T10:00&resource_id=2026-07-01T10:00',
    'response_body=*2026-07-01T10:00*&resource_id=2026-07-01T10:00',
  ],
  ['an invalid zone', '_search=Mars/Base&date:lessthan=2026-02-01T10:00', 'date:lessthan=2026-02-01T10:00'],
];

for (const [what, sent, expected] of searches) {
  test(`a search: ${what}`, () => assert.equal(meant(sent), expected));
}
