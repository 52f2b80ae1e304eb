import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from '../markup.ts';
import { chartsOf } from './charts.ts';

function drawn(charts: Parameters<typeof chartsOf>[0]): string {
  const page = chartsOf(charts);
  return page === false ? '' : render(page);
}
/** In the drawing itself: the samples of the legend stand before it. */
const pathOf = (page: string, name: string): string =>
  new RegExp(`class="${name}"[^>]*? d="([^"]*)"`).exec(page.slice(page.indexOf('class="plot"')))?.[1] ?? '-';
const axisOf = (page: string): string[] =>
  [...(/class="axis up"[^>]*>([^]*?)<\/div>/.exec(page)?.[1] ?? '').matchAll(/<span>([^<]*)</g)].map(
    ([, text = '']) => text,
  );
const rowsOf = (page: string): string[] =>
  [...(/<tbody>([^]*)<\/tbody>/.exec(page)?.[1] ?? '').matchAll(/<tr>([^]*?)<\/tr>/g)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>([^<]*)</g)].map(([, cell]) => cell).join(' '),
  );

const hours = ['10:00', '11:00', '12:00', '13:00'];

test('bars of failed attempts are striped and stacked on the delivered ones, and the table has their numbers', () => {
  const page = drawn({
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
  const page = drawn({
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
  const ids = [...drawn({ lines: [line, line] }).matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
  assert.deepEqual(ids, ['chart-1-title', 'chart-1-desc', 'chart-2-title', 'chart-2-desc']);
});

test('without a chart the note is shown all the same', () => {
  assert.match(drawn({ note: 'Nothing was sent.' }), /Nothing was sent\./);
  assert.equal(drawn({}), '');
});
