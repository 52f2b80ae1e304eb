import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { inspectPicture } from './logo.ts';

const heads = {
  png: '89504e470d0a1a0a0000000d49484452',
  jpeg: 'ffd8ff',
  webp: '524946460000000057454250565038',
  gif: '474946383961',
};

test('any bytes after a valid beginning are accepted or refused, and never cause an error', () => {
  const bytes = fc.tuple(fc.constantFrom(...Object.values(heads)), fc.uint8Array({ maxLength: 200 }));
  fc.assert(
    fc.property(bytes, ([head, rest]) => {
      inspectPicture(Buffer.concat([Buffer.from(head, 'hex'), rest]));
    }),
  );
});

const jpeg = (width: number): Buffer =>
  Buffer.from(
    `ffd8ffc0000b080001${width.toString(16).padStart(4, '0')}01011100ffda0008010100003f0012ff00ffd034ffd9`,
    'hex',
  );

test('a side may be 4,096 pixels long and no longer', () => {
  assert.deepEqual(inspectPicture(jpeg(4_096)), { mediaType: 'image/jpeg' });
  assert.deepEqual(inspectPicture(jpeg(4_097)), { fault: 'must be at most 4096 pixels per side' });
  assert.deepEqual(inspectPicture(jpeg(0)), { fault: 'must be at most 4096 pixels per side' });
});

test('the message for a picture with trailing bytes says how to remove them', () => {
  const inspected = inspectPicture(Buffer.concat([jpeg(1), jpeg(1)]));
  assert.match('fault' in inspected ? inspected.fault : '', / after its end.*\bsave\b/);
});

test('256 KiB built to be slow are checked quickly', () => {
  const before = process.threadCpuUsage();
  for (const [head, filler] of [
    [heads.jpeg, 'ff'],
    [heads.jpeg.slice(0, 4), 'ffd00002'],
    [heads.gif, '00'],
    [`${heads.gif}01000100000000`, '21f900'],
  ] as const)
    inspectPicture(Buffer.from(head + filler.repeat((256 * 1024) / (filler.length / 2)), 'hex'));
  assert.ok(process.threadCpuUsage(before).user < 1_000_000);
});
