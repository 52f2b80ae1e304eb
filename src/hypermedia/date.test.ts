import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatDate, isLocalDate, parseDate } from './date.ts';

/** The result of Intl, part by part. */
function asIntlSays(at: Date, timeZone: string): string {
  const parts = new Intl.DateTimeFormat('en-CA', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'longOffset',
  }).formatToParts(at);
  const of = (type: string): string => parts.find((part) => part.type === type)?.value ?? '';
  const offset = of('timeZoneName').replace('GMT', '').replace(':', '') || '+0000';
  return `${of('year')}-${of('month')}-${of('day')}T${of('hour')}:${of('minute')}:${of('second')}${offset}`;
}

const moment = fc.date({ min: new Date('1980-01-01'), max: new Date('2060-01-01'), noInvalidDate: true });

test('a date is shown in every zone as Intl shows it', () => {
  const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'), 'UTC');
  fc.assert(
    fc.property(moment, zone, (at, timeZone) => assert.equal(formatDate(at, timeZone), asIntlSays(at, timeZone))),
    { numRuns: 500 },
  );
});

test('a date without an offset is the time at which clocks of its zone show it', () => {
  const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'), 'UTC');
  fc.assert(
    fc.property(moment, zone, (at, timeZone) => {
      const shown = formatDate(at, timeZone).slice(0, 19);
      const read = parseDate(shown, timeZone);
      // An hour that occurs twice is read as the first one.
      assert.ok(read !== undefined && read <= at, shown);
      assert.equal(formatDate(read, timeZone).slice(0, 19), shown);
      assert.ok(isLocalDate(shown) && !isLocalDate(formatDate(at, timeZone)));
    }),
    { numRuns: 500 },
  );
});

test('an hour that occurs twice has two offsets', () => {
  assert.equal(formatDate(new Date('2026-10-25T00:59:59Z'), 'Europe/Berlin'), '2026-10-25T02:59:59+0200');
  assert.equal(formatDate(new Date('2026-10-25T01:00:00Z'), 'Europe/Berlin'), '2026-10-25T02:00:00+0100');
});

test('a shown date is read back as the same second', () => {
  fc.assert(
    fc.property(moment, (at) => {
      const second = Math.floor(at.getTime() / 1_000) * 1_000;
      assert.equal(parseDate(formatDate(at, 'Asia/Kathmandu'))?.getTime(), second);
    }),
  );
});
