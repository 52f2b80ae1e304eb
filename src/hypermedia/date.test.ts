import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatDate, isLocalDate, localDate, parseDate } from './date.ts';

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

/** A second within three hours of a change of the clocks in a zone that changes them. */
const nearChange = fc
  .record({
    timeZone: fc.constantFrom(...Intl.supportedValuesOf('timeZone')),
    at: moment,
    seconds: fc.integer({ min: -10_800, max: 10_800 }),
  })
  .map(({ timeZone, at, seconds }) => {
    const zoned = Temporal.Instant.fromEpochMilliseconds(at.getTime()).toZonedDateTimeISO(timeZone);
    const change = zoned.getTimeZoneTransition('previous');
    const isKnown = change !== null && change.epochMilliseconds > Date.UTC(1980);
    return {
      timeZone,
      change: isKnown ? change : undefined,
      at: new Date((isKnown ? change.epochMilliseconds : at.getTime()) + seconds * 1_000),
    };
  });

test('what a field shows is read as the same second, in every zone and around changes of its clocks', () => {
  let twice = 0;
  fc.assert(
    fc.property(nearChange, ({ at, timeZone }) => {
      const second = Math.floor(at.getTime() / 1_000) * 1_000;
      const shown = localDate(at, timeZone);
      assert.equal(parseDate(shown, timeZone)?.getTime(), second, shown);
      // The offset is there only where it is needed: a browser has no field for it.
      if (isLocalDate(shown)) return;
      twice += 1;
      assert.ok((parseDate(shown.slice(0, 19), timeZone)?.getTime() ?? second) < second, shown);
    }),
    { numRuns: 2_000 },
  );
  assert.ok(twice > 0);
});

test('a time that clocks skip is read as much later as they skip', () => {
  let skipped = 0;
  fc.assert(
    fc.property(
      nearChange,
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      ({ change, timeZone }, part) => {
        if (change === undefined) return;
        const before = change.subtract({ nanoseconds: 1 });
        const gapMs = (change.offsetNanoseconds - before.offsetNanoseconds) / 1e6;
        if (gapMs <= 0) return;
        skipped += 1;
        const intoMs = Math.floor((part * gapMs) / 1_000) * 1_000;
        const local = new Date(change.epochMilliseconds + before.offsetNanoseconds / 1e6 + intoMs);
        const read = parseDate(local.toISOString().slice(0, 19), timeZone);
        assert.equal(read?.getTime(), change.epochMilliseconds + intoMs);
      },
    ),
    { numRuns: 1_000 },
  );
  assert.ok(skipped > 0);
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
