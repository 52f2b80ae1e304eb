import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from '../markup.ts';
import { chartsOf, dayNumberOf, dayOfNumber, scaleOf } from './charts.ts';

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

const scales: readonly (readonly [what: string, values: readonly number[], ticks: readonly number[]])[] = [
  ['nothing', [], [0, 1]],
  ['nothing but zeros', [0, 0], [0, 1]],
  ['one value', [90], [0, 50, 100]],
  ['equal values', [300, 300, 300], [0, 100, 200, 300]],
  ['values with cents', [19.99, 27.5], [0, 10, 20, 30]],
  ['small values', [0.1, 0.3], [0, 0.1, 0.2, 0.3]],
  ['values that fall below zero', [-50, 100], [-50, 0, 50, 100]],
  ['values below zero', [-3, -1], [-3, -2, -1, 0]],
  ['a range beyond the largest number', [-1.7e308, 1.7e308], [0, 1]],
  ['huge values', [1e300, 2.5e300], [0, 1e300, 2e300, 3e300]],
];

test('a scale of whole numbers has no lines at halves', () => {
  assert.deepEqual(scaleOf([1], 1).ticks, [0, 1]);
  assert.deepEqual(scaleOf([7], 1).ticks, [0, 5, 10]);
  assert.deepEqual(scaleOf([70], 1).ticks, [0, 25, 50, 75]);
});

for (const [what, values, ticks] of scales) {
  test(`the lines across ${what} have round numbers and span all of it`, () => {
    const scale = scaleOf(values);
    assert.deepEqual(scale.ticks, ticks);
    for (const value of values) assert.ok(scale.shareOf(value) >= 0 && scale.shareOf(value) <= 1 + 1e-9, String(value));
  });
}

function drawnHours(charts: Parameters<typeof chartsOf>[0]): string {
  const page = chartsOf(charts);
  return page === false ? '' : render(page);
}
/** In the drawing itself: the samples of the legend stand before it. */
const pathOf = (page: string, name: string): string =>
  new RegExp(`class="${name}"[^>]*? d="([^"]*)"`).exec(page.slice(page.indexOf('class="plot"')))?.[1] ?? '-';
const rowsOf = (page: string): string[] =>
  [...(/<tbody>([^]*)<\/tbody>/.exec(page)?.[1] ?? '').matchAll(/<tr>([^]*?)<\/tr>/g)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>([^<]*)</g)].map(([, cell]) => cell).join(' '),
  );

const hours = ['10:00', '11:00', '12:00', '13:00'];

test('bars of failed attempts are striped and stacked on the delivered ones, and the table has their numbers', () => {
  const page = drawnHours({
    bars: [
      {
        title: 'Attempts',
        summary: '60 delivered, 40 failed',
        hours,
        good: { name: 'Delivered', counts: [60, 0, 0, 0] },
        bad: { name: 'Failed', counts: [30, 0, 10, 0] },
      },
    ],
  });
  // An hour is 150 wide, and 90 of 100 as high as the plot at most: 60 of them below.
  assert.equal(pathOf(page, 'bar'), 'M21 100V40H129V100Z');
  assert.equal(pathOf(page, 'bar bad'), 'M21 40V10H129V40ZM321 100V90H429V100Z');
  assert.equal(pathOf(page, 'hatched'), pathOf(page, 'bar bad'));
  assert.deepEqual(axisOf(page), ['100', '50', '0']);
  assert.deepEqual(rowsOf(page), ['13:00 0 0', '12:00 0 10', '11:00 0 0', '10:00 60 30']);
  assert.match(page, /<desc id="chart-1-desc">60 delivered, 40 failed<\/desc>/);
  assert.match(page, /<title>12:00: 0 delivered, 10 failed<\/title>/);
  assert.doesNotMatch(page, /\sstyle=/);
});

test('an hour without a response is a gap in the lines, and a single one is as wide as its hour', () => {
  const page = drawnHours({
    lines: [
      {
        title: 'Answers',
        summary: 'Half within 20 ms',
        hours,
        unit: 'ms',
        main: { name: 'Half within', values: [20, null, 10, 20] },
        beside: { name: '95 % within', values: [1_500, null, 750, 1_500] },
      },
    ],
  });
  assert.equal(pathOf(page, 'curve beside'), 'M0 0h150M375 50L525 0');
  assert.equal(pathOf(page, 'curve'), 'M0 98.7h150M375 99.3L525 98.7');
  assert.deepEqual(axisOf(page), ['1.5K ms', '1K ms', '500 ms', '0 ms']);
  assert.deepEqual(rowsOf(page), ['13:00 20 ms 1,500 ms', '12:00 10 ms 750 ms', '11:00 – –', '10:00 20 ms 1,500 ms']);
});

test('charts on one page have distinct ids', () => {
  const measured = { name: 'x', values: [1] };
  const line = { title: 'A', summary: '', hours: ['10:00'], unit: 'ms', main: measured, beside: measured };
  const ids = [...drawnHours({ lines: [line, line] }).matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
  assert.deepEqual(ids, ['chart-1-title', 'chart-1-desc', 'chart-2-title', 'chart-2-desc']);
});

test('without a chart the note is shown all the same', () => {
  assert.match(drawnHours({ note: 'Nothing was sent.' }), /Nothing was sent\./);
  assert.equal(drawnHours({}), '');
});
