import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  boolean,
  code,
  count,
  date,
  enumeration,
  json,
  number,
  secret,
  text,
  url,
  type Property,
  type Value,
} from '../document.ts';
import { html, render } from '../markup.ts';
import { cellValue, shownValue, flatTable } from './property-values.ts';

const squeezed = (markup: string): string => markup.replaceAll(/\s+/g, ' ').trim();
const shown = (property: Property): string => squeezed(render(html`${shownValue(property)}`));
const inCell = (property: Property): string => squeezed(render(html`${cellValue(property)}`));

const values: readonly (readonly [kind: string, property: Property, shown: string])[] = [
  ['text', text('name', 'Tea & <cakes>'), 'Tea &amp; &lt;cakes&gt;'],
  ['text of lines', text('note', 'a\nb'), '<span class="lines">a b</span>'],
  ['nothing', text.orNull('name', null), '<span class="soft">Not set</span>'],
  ['empty text', text('name', ''), '<span class="soft">Not set</span>'],
  ['number', number('limit', 1200), '1200'],
  ['number with a unit', { ...number('duration', 12), unit: 'ms' }, '12 ms'],
  ['count', count('total', 7), '7'],
  ['boolean "1"', boolean('is_active', '1'), 'Yes'],
  ['boolean "0"', boolean('is_active', '0'), 'No'],
  ['boolean true', boolean('is_active', true), 'Yes'],
  ['boolean false', json('is_active', false), 'No'],
  ['enumeration', enumeration('format', 'partner_automation'), 'Partner automation'],
  ['good state', enumeration('state', 'ok'), '<span class="badge fine">OK</span>'],
  ['bad state', text('outcome', 'timed_out:connect'), '<span class="badge broken">Timed out: connect</span>'],
  ['uncertain state', json('status', 'pending'), '<span class="badge">Pending</span>'],
  ['unknown state', json('status', 'purple'), '<span class="badge plain">Purple</span>'],
  ['money', { name: 'total', value: '12.5', kind: 'money', currency: 'EUR' }, '€12.50'],
  ['invalid money', { name: 'total', value: 'free', kind: 'money', currency: 'EUR' }, 'free'],
  ['url', url('url', 'https://evil.example/'), '<code>https://evil.example/</code>'],
  ['url of a script', url('url', 'javascript:alert(1)'), '<code>javascript:alert(1)</code>'],
  ['short code', code('body', '{}'), '<code>{}</code>'],
  ['code of lines', code('body', '\na <b>'), '<pre class="copyable"> a &lt;b&gt;</pre>'],
  ['empty list', json('tags', []), '<span class="soft">None</span>'],
  ['list', json('tags', ['a', 1, null]), '<ul class="values"> <li>a</li><li>1</li><li>–</li> </ul>'],
  ['empty object', json('headers', {}), '<span class="soft">None</span>'],
  ['object', json('headers', { 'X-A': 'b' }), '<dl class="values"> <dt>X-A</dt> <dd>b</dd> </dl>'],
  ['structure', json('tree', [{ a: [1] }]), '<pre class="copyable"> [ { &quot;a&quot;: [ 1 ] } ]</pre>'],
  ['text that is an object', text('name', { a: 'b' }), '<dl class="values"> <dt>a</dt> <dd>b</dd> </dl>'],
  ['control characters', text('name', 'a\0b\u001Bc\u202Ed\u0085'), 'a␀b␛c\uFFFDd\uFFFD'],
  ['an emoji of several code points', text('name', '👩‍🚀'), '👩‍🚀'],
  ['an invalid date', date('date', 'yesterday'), 'yesterday'],
];

for (const [kind, property, expected] of values) {
  test(`a value is shown: ${kind}`, () => assert.equal(shown(property), expected));
}

const dates: readonly (readonly [written: string, long: string, brief: string])[] = [
  ['2026-11-20T16:05:03+0000', '20 November 2026 at 16:05 UTC', '20 Nov 2026 <span>16:05 UTC</span>'],
  ['2026-07-01T00:30:00+0200', '1 July 2026 at 00:30 UTC+2', '1 Jul 2026 <span>00:30 UTC+2</span>'],
  ['2026-05-09T23:59:59-0330', '9 May 2026 at 23:59 UTC−3:30', '9 May 2026 <span>23:59 UTC−3:30</span>'],
];

for (const [written, long, brief] of dates) {
  test(`${written} is shown in its own time zone`, () => {
    assert.equal(shown(date('date_created', written)), `<time datetime="${written}">${long}</time>`);
    assert.equal(inCell(date('date_created', written)), `<time datetime="${written}">${brief}</time>`);
  });
}

test('a secret is folded behind a mask of fixed length', () => {
  const masks = ['x', 'a much longer secret'].map((value) => {
    const [mask = '', rest = ''] = shown(secret('key', value)).split('</summary>');
    assert.equal(rest, ` <code>${value}</code> </details>`);
    return mask;
  });
  assert.match(masks[0] ?? '', /^<details class="reveal"> <summary>/);
  assert.equal(masks[0], masks[1]);
});

test('a long response of an endpoint is folded', () => {
  assert.match(shown(code('body', 'x\n'.repeat(300))), /^<details class="fold"> <summary>[^<]* 301 lines/);
  assert.match(shown(code('body', 'x'.repeat(5_000))), /^<details class="fold"> <summary>[^<]* 5000 characters/);
});

test('a cell shortens long text, and shows none of it twice', () => {
  assert.equal(inCell(text('name', '🐎'.repeat(100))), `${'🐎'.repeat(60)}…`);
  assert.equal(inCell(text('name', '🐎'.repeat(60))), '🐎'.repeat(60));
  assert.equal(inCell(text.orNull('name', null)), '<span class="soft">–</span>');
});

/** The text of each cell, numbers with a `#` before it; undefined if there is no table. */
function cellsOf(list: readonly Value[], label = 'Rows'): string[][] | undefined {
  const table = flatTable(list, label);
  if (table === undefined) return undefined;
  const [, ...rows] = render(table).split('<tr>');
  return rows.map((row) =>
    [...row.matchAll(/<t[hd]([^>]*)>([^<]*)</g)].map(([, attributes = '', inside = '']) =>
      attributes.includes('number') ? `#${inside}` : inside,
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

const rowsOf = (length: number): Value[] => Array.from({ length }, (_, n) => ({ n }));
const membersOf = (length: number): Value => Object.fromEntries(Array.from({ length }, (_, n) => [`n${n}`, n]));

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
