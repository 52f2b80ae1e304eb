import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Document, Property } from '../document.ts';
import { renderHal } from '../hal.ts';
import { renderHtml } from './document-page.ts';
import { trendWords } from './charts.ts';

const labels = ['10:00', '11:00', '12:00', '13:00'];
const table: readonly (readonly [what: string, values: (number | null)[], unit: string | undefined, words: RegExp])[] =
  [
    ['a trend that falls and rises', [99, 40, 100, 97], '%', / 40 % \(11:00\) .* 100 % \(12:00\), .* 97 %$/],
    ['what stays', [100, null, 100, null], '%', /^100 %\D*$/],
    ['mere numbers', [1, 2, 3, null], undefined, / 1 \(10:00\) .* 3 \(12:00\), .* 3$/],
    ['nothing', [null, null, null, null], 'ms', /^No data yet$/],
  ];

for (const [what, values, unit, words] of table)
  test(`${what} as a sentence`, () =>
    assert.match(trendWords(values, { labels, ...(unit !== undefined && { unit }) }), words));

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const trend = (value: Property['value']): Property => ({
  name: 'success_trend',
  kind: 'trend',
  value,
  unit: '%',
  labels,
});
const documentOf = (...properties: Property[]): Document => ({
  name: 'health',
  links: [{ rel: 'self', href: 'https://api.example.com/webhooks/1/health', title: 'Health' }],
  embedded: [],
  properties,
});

test('a trend is a line with its sentence beside its name, and only the line in a cell', () => {
  const one = documentOf(trend([99, 40, null, 97]));
  const page = renderHtml(one, naming);
  const [svg = ''] = /<svg[^]*?<\/svg>/.exec(page) ?? [];
  assert.match(svg, /role="img"[^>]*aria-label="Success trend: [^"]* 40 % \(11:00\) [^"]* 99 % \(10:00\), [^"]* 97 %"/);
  assert.match(svg, /class="curve" d="M30 1L90 60M180 3h60"/);
  assert.match(page, /<span class="soft" aria-hidden="true">[^<]*40 % /);
  const named = [{ name: 'name', kind: 'text', value: 'Orders' }, trend([100, 100, null, 97])] as const;
  const row = { ...documentOf(...named), embedded: [] };
  const list = renderHtml({ ...documentOf(), embedded: [{ rel: 'healths', documents: [row] }] }, naming);
  assert.match(
    list,
    /<td data-label="[^"]*"><svg[^>]*="[^"]*97 % \(13:00\)[^"]* 100 % \(10:00\)[^"]*"[^]*?<\/svg><\/td>/,
  );
  assert.doesNotMatch(page + list, /\sstyle=/);
});

test('a value that is no array of numbers is shown as it is', () => {
  assert.match(renderHtml(documentOf(trend(['<b>', 1])), naming), /<li>&lt;b&gt;<\/li>/);
});

test('other formats contain the numbers', () => {
  assert.deepEqual(
    (JSON.parse(renderHal(documentOf(trend([99, null])), naming)) as Record<string, unknown>)['success_trend'],
    [99, null],
  );
});
