import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyHistogram } from '#core/histogram.ts';
import { chartsOfFigures } from './health-operations.ts';
import { figuresOf, p50, successRate } from './figures.ts';
import type { HourRow } from './health-sql.ts';

const now = new Date('2026-07-01T10:20:00Z');

function row(hoursAgo: number, outcome: string, attempts: number, bucket = 0): HourRow {
  const durations = emptyHistogram();
  durations[bucket] = attempts;
  return { webhookId: 1, hour: new Date(Date.UTC(2026, 6, 1, 10 - hoursAgo)), outcome, attempts, durations };
}

test('the last 24 hours are the current one and the 23 before it', () => {
  const { spans, attempts } = figuresOf([row(0, 'delivered', 1), row(23, 'delivered', 2), row(24, 'refused', 4)], now);
  assert.deepEqual([spans.length, spans[0]?.attempts, spans.at(-1)?.attempts, attempts], [24, 2, 1, 3]);
  assert.equal(spans[0]?.at.toISOString(), '2026-06-30T11:00:00.000Z');
});

test('one failure among very many is not "100 %", and without attempts there is no rate', () => {
  assert.equal(successRate(figuresOf([row(0, 'delivered', 1_000_000), row(0, 'gone', 1)], now)), 99.9);
  assert.equal(successRate(figuresOf([row(0, 'delivered', 7)], now)), 100);
  assert.equal(successRate(figuresOf([], now)), null);
});

test('response times exclude attempts without a response', () => {
  const figures = figuresOf(
    [row(0, 'delivered', 1, 3), row(0, 'unreachable:dns', 99, 0), row(0, 'blocked', 9, 0)],
    now,
  );
  assert.equal(p50(figures), 100);
  assert.equal(p50(figuresOf([row(0, 'timed_out:answer', 9, 11)], now)), null);
});

test('each kind of failure is listed once, the latest first', () => {
  const rows = [row(3, 'refused', 5), row(9, 'refused', 2), row(1, 'timed_out:answer', 1), row(1, 'delivered', 9)];
  assert.deepEqual(
    figuresOf(rows, now).failures.map(({ outcome, attempts, hour }) => [outcome, attempts, hour.getUTCHours()]),
    [
      ['timed_out:answer', 1, 9],
      ['refused', 7, 7],
    ],
  );
});

test('a chart is described in the time zone of the store', () => {
  const summaryOf = (rows: readonly HourRow[]) =>
    chartsOfFigures(figuresOf(rows, now), 'Asia/Kolkata').bars?.[0]?.summary;
  assert.match(
    summaryOf([row(0, 'delivered', 1_500), row(1, 'refused', 10), row(2, 'refused', 2)]) ?? '',
    /^1,500 \D+99\.2 %\D+ 12 failed\D+ 10 .*14:30 UTC\+5:30$/,
  );
  assert.equal(summaryOf([row(0, 'delivered', 5)]), '5 delivered (100 %), none failed');
  assert.deepEqual(Object.keys(chartsOfFigures(figuresOf([], now), 'UTC')), ['note']);
});

test('the response time is shown as the range of its histogram bucket', () => {
  const summaryOf = (bucket: number) =>
    chartsOfFigures(figuresOf([row(0, 'delivered', 3, bucket)], now), 'UTC').lines?.[0]?.summary ?? '';
  assert.deepEqual(
    [0, 2, 6, 7, 11].map((bucket) => /median (.*), 95/.exec(summaryOf(bucket))?.[1]),
    ['0–10 ms', '25–50 ms', '500 ms–1 s', '1–2.5 s', 'more than 30 s'],
  );
});
