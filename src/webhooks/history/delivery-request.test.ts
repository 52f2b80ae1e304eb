import assert from 'node:assert/strict';
import { test } from 'node:test';
import { previewTime } from './delivery-request.ts';

const at = (minute: number): Date => new Date(Date.UTC(2026, 6, 1, 10, minute));
const [dateCreated, dateEnded, now] = [at(1), at(5), at(30)];
const timeOf = (dateNext: Date | null, ended: Date | null, rotationEndsAt: Date | null = null): number =>
  previewTime({ dateNext, dateEnded: ended, dateCreated }, { rotationEndsAt }, now).getUTCMinutes();

test('a request preview is dated when it is due, ended or was created, and never at the time of viewing', () => {
  assert.deepEqual(
    [timeOf(at(40), null), timeOf(at(20), null), timeOf(null, dateEnded), timeOf(null, null)],
    [40, 20, 5, 1],
  );
});

test('after its rotation ended the new key signs the preview, and not before', () => {
  assert.deepEqual(
    [timeOf(at(20), null, at(25)), timeOf(at(20), null, at(35)), timeOf(at(20), null, at(3))],
    [25, 20, 20],
  );
});
