import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { until } from '../../test/setup/until.ts';
import { createLookup } from './batch.ts';

type Read = {
  keys: readonly string[];
  answer: (rows: readonly (string | undefined)[]) => void;
  fail: (e: Error) => void;
};

/** A look-up whose reads end when the test says so. */
function start() {
  const reads: Read[] = [];
  const find = createLookup<string>((keys) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly (string | undefined)[]>();
    reads.push({ keys, answer: resolve, fail: reject });
    return promise;
  });
  return { reads, find };
}

/** Lets all promises that can settle do so. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('keys of one tick share a read, and equal keys a row', async () => {
  const { reads, find } = start();
  const found = Promise.all(['a', 'b', 'a'].map(find));
  await settled();
  assert.deepEqual(
    reads.map(({ keys }) => keys),
    [['a', 'b']],
  );
  reads[0]?.answer(['A', undefined]);
  assert.deepEqual(await found, ['A', undefined, 'A']);
});

test('a key that is asked for while it is read is read again, so that no caller gets a state older than its call', async () => {
  const { reads, find } = start();
  const first = find('a');
  await settled();
  const second = find('a');
  reads[0]?.answer(['before']);
  assert.equal(await first, 'before');
  await settled();
  reads[1]?.answer(['after']);
  assert.equal(await second, 'after');
});

test('a read that fails rejects its own callers and no later ones', async () => {
  const { reads, find } = start();
  const first = find('a');
  const rejected = assert.rejects(first, /lost/);
  await settled();
  const second = find('a');
  reads[0]?.fail(new Error('lost'));
  await rejected;
  await settled();
  reads[1]?.answer(['A']);
  assert.equal(await second, 'A');
});

test('a read without a response does not stop the next one', async () => {
  const { reads, find } = start();
  void find('a');
  await settled();
  const second = find('b');
  await until(
    async () => reads.length,
    (count) => count === 2,
  );
  reads[1]?.answer(['B']);
  assert.equal(await second, 'B');
});

test('every caller gets the state at its call or a later one, for any order of calls and ends', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('call' as const), key: fc.constantFrom('a', 'b', 'c') }),
    fc.record({ kind: fc.constant('change' as const) }),
    fc.record({ kind: fc.constant('end' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      let state = 0;
      const { reads, find } = start();
      /** What a read will answer: the state at its start. */
      const startedAt: number[] = [];
      const checks: Promise<void>[] = [];
      const note = () => {
        while (startedAt.length < reads.length) startedAt.push(state);
      };
      let ended = 0;
      const endOne = () => {
        const read = reads[ended];
        if (read === undefined) return;
        read.answer(read.keys.map((key) => `${key}${startedAt[ended]}`));
        ended += 1;
      };
      for (const one of steps) {
        if (one.kind === 'change') state += 1;
        if (one.kind === 'end') endOne();
        if (one.kind === 'call') {
          const { key } = one;
          const calledAt = state;
          checks.push(
            find(key).then((row) => {
              assert.equal(row?.[0], key);
              assert.ok(Number(row?.slice(1)) >= calledAt);
            }),
          );
        }
        await settled();
        note();
      }
      while (ended < reads.length) {
        endOne();
        await settled();
        note();
      }
      await Promise.all(checks);
    }),
    { numRuns: 50 },
  );
});
