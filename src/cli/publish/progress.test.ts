import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressLine } from './publish-run.ts';

const MIB = 1024 * 1024;

const table = [
  [{ lines: 0, bytes: 0, seconds: 0 }, MIB, '[                        ] 0 %  0 events  0/s'],
  [
    { lines: 5_000, bytes: MIB / 4, seconds: 2 },
    MIB,
    '[======                  ] 25 %  5,000 events  2,500/s  0:06 left',
  ],
  [{ lines: 9, bytes: 1, seconds: 3 }, 4_000, '[                        ] 0 %  9 events  3/s  3:19:57 left'],
  [{ lines: 20, bytes: MIB, seconds: 4 }, MIB, '[========================] 100 %  20 events  5/s  0:00 left'],
  [{ lines: 12, bytes: 900, seconds: 61 }, undefined, '12 events  0/s  1:01'],
] as const;

for (const [done, totalBytes, line] of table) {
  test(`${done.bytes} of ${totalBytes ?? '?'} bytes is shown as ${line}`, () =>
    assert.equal(progressLine(done, totalBytes, 'events'), line));
}
