/** packages/retry-after.json: what every client and the delivery engine make of `Retry-After` (RFC 9110 §10.2.3). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { retryAfterMs } from '#retry-after';
import vectors from '../../packages/retry-after.json' with { type: 'json' };

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Returns the three forms of an HTTP-date (RFC 9110 §5.6.7). */
function formsOf(date: Date): string[] {
  const iso = date.toISOString();
  const [year, day, time] = [iso.slice(0, 4), iso.slice(8, 10), iso.slice(11, 19)];
  const [weekday, month] = [DAYS[date.getUTCDay()] ?? '', MONTHS[date.getUTCMonth()] ?? ''];
  return [
    `${weekday.slice(0, 3)}, ${day} ${month} ${year} ${time} GMT`,
    `${weekday}, ${day}-${month}-${year.slice(2)} ${time} GMT`,
    `${weekday.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`,
  ];
}

const date = fc
  .integer({ min: Date.UTC(2000, 0) / 1000, max: Date.UTC(2099, 0) / 1000 })
  .map((at) => new Date(at * 1000));

test('Retry-After is seconds or one of three forms of a date, all in GMT; anything else is ignored', () => {
  for (const [header, seconds] of Object.entries(vectors.seconds))
    assert.equal(retryAfterMs(header, vectors.now * 1000), seconds * 1000, header);
  for (const header of [null, undefined]) assert.equal(retryAfterMs(header, 0), 0);
  // Longer than any limit, and still a number of milliseconds.
  assert.equal(retryAfterMs('9'.repeat(400), 0), Number.MAX_SAFE_INTEGER);
});

test('each form of a date within 50 years is the time until that date', () => {
  fc.assert(
    fc.property(date, fc.integer({ min: -49 * 365 * 86_400, max: 49 * 365 * 86_400 }), (at, seconds) => {
      const nowMs = at.getTime() - seconds * 1000;
      for (const header of formsOf(at)) assert.equal(retryAfterMs(header, nowMs), Math.max(0, seconds) * 1000, header);
    }),
  );
});

test('a changed character is another number, another date, or ignored', () => {
  const header = fc.oneof(
    fc.nat().map(String),
    fc.tuple(date, fc.nat(2)).map(([at, form]) => formsOf(at)[form] ?? ''),
  );
  const part = fc.constantFrom(
    '',
    ' ',
    '.',
    ',',
    '-',
    '+',
    ':',
    'e',
    'Z',
    '0',
    '1',
    '2',
    '9',
    'GMT',
    'Mon',
    'Dec',
    '٣',
  );
  fc.assert(
    fc.property(header, fc.nat(40), fc.nat(3), part, (text, at, removed, inserted) => {
      const changed = text.slice(0, at) + inserted + text.slice(at + removed);
      const nowMs = Date.UTC(2000, 0);
      const ms = retryAfterMs(changed, nowMs);
      if (ms === 0) return;
      const said = /^[0-9]+$/.test(changed) ? [String(ms / 1000)] : formsOf(new Date(nowMs + ms));
      assert.ok(said.includes(changed.replace(/^0+(?=[0-9]+$)/, '')), `${changed} is not ${ms} ms`);
    }),
  );
});
