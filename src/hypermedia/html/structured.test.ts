import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Value } from '../document.ts';
import { render } from '../markup.ts';
import { flatTable } from './property-values.ts';

/** The text of each cell, numbers with a `#` before it; undefined if there is no table. */
function cellsOf(list: readonly Value[], label = 'Rows'): string[][] | undefined {
  const table = flatTable(list, label);
  if (table === undefined) return undefined;
  const [, ...rows] = render(table).split('<tr>');
  return rows.map((row) =>
    [...row.matchAll(/<t[hd]([^>]*)>([^<]*)</g)].map(([, attributes = '', text = '']) =>
      attributes.includes('number') ? `#${text}` : text,
    ),
  );
}

test('rows of numbers are a table', () => {
  const rows = [
    { currency_code: 'EUR', mrr: 19.99 },
    { currency_code: 'USD', mrr: 0 },
  ];
  assert.deepEqual(cellsOf(rows), [
    ['Currency code', '#MRR'],
    ['EUR', '#19.99'],
    ['USD', '#0'],
  ]);
});

test('a missing value is an empty cell, whatever its name', () => {
  const rows: Value[] = [{ a: 1 }, { constructor: null }];
  assert.deepEqual(cellsOf(rows), [
    ['#A', 'Constructor'],
    ['#1', ''],
    ['#', '–'],
  ]);
});

test('user content has no effect on the page', () => {
  assert.deepEqual(cellsOf([{ '<b>': '<i>\u202E' }]), [['&lt;b&gt;'], ['&lt;i&gt;\uFFFD']]);
});

const rowsOf = (count: number): Value[] => Array.from({ length: count }, (_, n) => ({ n }));
const membersOf = (count: number): Value => Object.fromEntries(Array.from({ length: count }, (_, n) => [`n${n}`, n]));

const others: readonly (readonly [what: string, list: readonly Value[], fitting?: readonly Value[]])[] = [
  ['a word among rows', [{ a: 1 }, 'b']],
  ['a row without members', [{}]],
  ['a row in a row', [{ a: [1] }]],
  ['a member without a name', [{ ' ': 1 }]],
  ['a text of lines', [{ a: 'b\nc' }]],
  ['a long text', [{ a: 'x'.repeat(61) }], [{ a: 'x'.repeat(60) }]],
  ['many rows', rowsOf(101), rowsOf(100)],
  ['many members', [membersOf(11)], [membersOf(10)]],
];

for (const [what, list, fitting] of others) {
  test(`no table: ${what}`, () => {
    assert.equal(cellsOf(list), undefined);
    if (fitting !== undefined) assert.notEqual(cellsOf(fitting), undefined);
  });
}
