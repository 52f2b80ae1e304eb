import assert from 'node:assert/strict';
import { test } from 'node:test';
import { previewTime } from './delivery-request.ts';

const at = (minute: number): Date => new Date(Date.UTC(2026, 6, 1, 10, minute));
const [dateCreated, dateEnded, now] = [at(1), at(5), at(30)];
const timeOf = (dateNext: Date | null, ended: Date | null, rotationEndsAt: Date | null = null): number =>
  previewTime({ dateNext, dateEnded: ended, dateCreated }, { rotationEndsAt }, now).getUTCMinutes();

test('what was not sent so is dated when it is due, or has ended, or was made, and never by the moment of the look', () => {
  assert.deepEqual(
    [timeOf(at(40), null), timeOf(at(20), null), timeOf(null, dateEnded), timeOf(null, null)],
    [40, 20, 5, 1],
  );
});

test('a key that has taken over since signs what would be sent now, and one that has not does not', () => {
  assert.deepEqual(
    [timeOf(at(20), null, at(25)), timeOf(at(20), null, at(35)), timeOf(at(20), null, at(3))],
    [25, 20, 20],
  );
});
