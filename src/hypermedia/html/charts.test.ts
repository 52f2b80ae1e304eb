import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from '../markup.ts';
import { chartsOf, dayNumberOf, dayOfNumber } from './charts.ts';

function drawn(values: readonly number[], currency = 'EUR'): string {
  const points = values.map((value, n) => ({ day: dayOfNumber(dayNumberOf('2027-03-01') + n), value }));
  const charts = chartsOf({ curves: [{ title: 'Revenue', currency, points }] });
  return charts === false ? '' : render(charts);
}
const curveOf = (page: string): string => /class="curve" d="([^"]*)"/.exec(page)?.[1] ?? '';
const summaryOf = (page: string): string => /<desc[^>]*>([^<]*)</.exec(page)?.[1] ?? '';
const axisOf = (page: string): string[] =>
  [...(/class="axis up"[^>]*>([^]*?)<\/div>/.exec(page)?.[1] ?? '').matchAll(/<span>([^<]*)</g)].map(
    ([, text = '']) => text,
  );

const table: readonly (readonly [
  what: string,
  values: readonly number[],
  curve: string,
  axis: string[],
  summary: RegExp,
])[] = [
  ['one day', [90], 'M300 10', ['€100', '€50', '€0'], /^€90\.00 .*1 Mar 2027$/],
  ['equal days', [300, 300], 'M0 0L600 0', ['€300', '€200', '€100', '€0'], /^€300\.00 .*2 Mar .*unchanged .*1 Mar /],
  ['nothing but zeros', [0, 0], 'M0 100L600 100', ['€1', '€0'], /^€0\.00 .*2 Mar .*unchanged .*1 Mar /],
  [
    'a rise',
    [0, 20, 30],
    'M0 100L300 33.3L600 0',
    ['€30', '€20', '€10', '€0'],
    /^€30\.00 .*3 Mar .*€30\.00 more .*1 Mar /,
  ],
  ['a fall', [0.3, 0.1], 'M0 0L600 66.7', ['€0.3', '€0.2', '€0.1', '€0'], /^€0\.10 .*2 Mar .*€0\.20 less .*1 Mar /],
  [
    'huge values',
    [3e12, 1e12],
    'M0 0L600 66.7',
    ['€3T', '€2T', '€1T', '€0'],
    /^€1,000,000,000,000\.00 .*€2,000,000,000,000\.00 less /,
  ],
];

for (const [what, values, curve, axis, summary] of table) {
  test(`the chart of ${what}`, () => {
    const page = drawn(values);
    assert.deepEqual([curveOf(page), axisOf(page)], [curve, axis]);
    assert.match(summaryOf(page), summary);
  });
}

test('amounts have the decimals of their currency, and those without a currency have no sign', () => {
  assert.equal(summaryOf(drawn([51.716667])), '€51.72 on 1 Mar 2027');
  assert.equal(summaryOf(drawn([5_171.6667], 'JPY')), '¥5,172 on 1 Mar 2027');
  assert.equal(summaryOf(drawn([51.716667], 'XXX')), '51.72 on 1 Mar 2027');
  assert.deepEqual(axisOf(drawn([90], 'XXX')), ['100', '50', '0']);
});

test('without a day no chart is drawn', () => assert.equal(drawn([]), ''));

test('a year has one point per day, and its numbers beside it, the latest first', () => {
  const page = drawn(Array.from({ length: 365 }, (_, n) => n));
  assert.equal(curveOf(page).split('L').length, 365);
  const days = [...page.matchAll(/<time datetime="([^"]*)"/g)].map(([, day]) => day);
  assert.deepEqual([days.length, days[0], days.at(-1)], [365, '2028-02-28', '2027-03-01']);
});

test('missing days leave a gap', () => {
  const points = ['2027-03-01', '2027-03-02', '2027-03-11'].map((day) => ({ day, value: 1 }));
  const charts = chartsOf({ curves: [{ title: 'Revenue', currency: 'EUR', points }] });
  assert.equal(curveOf(charts === false ? '' : render(charts)), 'M0 0L60 0L600 0');
});

test('extreme numbers are drawn all the same', () => {
  const page = drawn([1e300, 2e300], 'no currency');
  assert.deepEqual(axisOf(page), ['2E300', '1E300', '0']);
});
