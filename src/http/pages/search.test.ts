import assert from 'node:assert/strict';
import { test } from 'node:test';
import { searchedQuery } from './search.ts';

function meant(query: string): string | undefined {
  const found = searchedQuery(new URLSearchParams(query));
  return found && decodeURIComponent(found.toString());
}

const searches: readonly (readonly [what: string, sent: string, meant: string | undefined])[] = [
  ['a query not sent by a search form is kept', 'status=&name=x', undefined],
  ['what is empty is not asked for', '_search=UTC&status=&name=+x+&limit=', 'name=x'],
  ['nothing at all asks for everything', '_search=UTC&status=', ''],
  ['what comes twice stays twice', '_search=UTC&name=a&name=b', 'name=a&name=b'],
  [
    'a time of the summer',
    '_search=Europe/Berlin&date:lessthan=2026-07-01T10:00',
    'date:lessthan=2026-07-01T10:00:00+0200',
  ],
  [
    'a time of the winter',
    '_search=Europe/Berlin&date:lessthan=2026-01-01T10:00',
    'date:lessthan=2026-01-01T10:00:00+0100',
  ],
  ['a time in UTC', '_search=Europe/Berlin&date=2026-07-01T10:00:00Z', 'date=2026-07-01T10:00:00Z'],
  ['a day that is none', '_search=UTC&date=2026-02-31T10:00', 'date=2026-02-31T10:00'],
  ['a zone that is none', '_search=Mars/Base&date=2026-02-01T10:00', 'date=2026-02-01T10:00'],
];

for (const [what, sent, expected] of searches) {
  test(`a search: ${what}`, () => assert.equal(meant(sent), expected));
}
