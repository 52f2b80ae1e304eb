import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from 'fast-check';
import { createBatcher, createLookup } from './batch.ts';
import { until } from '../../test/setup/until.ts';

type Run = { inputs: readonly number[]; finish: () => void; fail: (error: Error) => void };

const URGENT = 13;

/** A batcher whose runs end when the test ends them. An input has as many bytes as its number. */
function start({ maxRows = 100, maxBytes = 1_000, gatherMs = 0 } = {}) {
  const runs: Run[] = [];
  let atOnce = 0;
  const batcher = createBatcher<number, string>({
    maxRows,
    bytes: { max: maxBytes, of: (n) => n },
    ...(gatherMs > 0 && { gather: { maxMs: gatherMs, isUrgent: (n) => n === URGENT } }),
    run: (inputs) => {
      atOnce += 1;
      assert.equal(atOnce, 1, 'one run at a time');
      const { promise, resolve, reject } = Promise.withResolvers<string[]>();
      const finish = () => resolve(inputs.map((n) => `done ${n}`));
      runs.push({ inputs, finish, fail: reject });
      return promise.finally(() => (atOnce -= 1));
    },
  });
  return { batcher, runs };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const unavailable = (): Error => Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });

// Batches

test('inputs that arrive during a batch share the next one, in order', async () => {
  const { batcher, runs } = start();
  const first = batcher.submit(1);
  await turn();
  const rest = [batcher.submit(2), batcher.submit(3), batcher.submit(4)];
  await turn();
  assert.deepEqual(
    runs.map(({ inputs }) => inputs),
    [[1]],
  );
  runs[0]?.finish();
  assert.equal(await first, 'done 1');
  await turn();
  assert.deepEqual(
    runs.map(({ inputs }) => inputs),
    [[1], [2, 3, 4]],
  );
  runs[1]?.finish();
  assert.deepEqual(await Promise.all(rest), ['done 2', 'done 3', 'done 4']);
});

test('inputs submitted together are one batch', async () => {
  const { batcher, runs } = start();
  const all = [batcher.submit(1), batcher.submit(2)];
  await turn();
  runs[0]?.finish();
  await Promise.all(all);
  assert.deepEqual(
    runs.map(({ inputs }) => inputs),
    [[1, 2]],
  );
});

for (const [limits, batches] of [
  [{ maxBytes: 10 }, [[4, 6], [1], [50], [2]]],
  [{ maxRows: 2 }, [[4, 6], [1, 50], [2]]],
] as const) {
  test(`a batch ends before ${JSON.stringify(limits)}, and a larger input runs alone`, async () => {
    const { batcher, runs } = start(limits);
    const all = [4, 6, 1, 50, 2].map((n) => batcher.submit(n));
    for (let i = 0; i < 4; i += 1) {
      await turn();
      runs[i]?.finish();
    }
    await Promise.all(all);
    assert.deepEqual(
      runs.map(({ inputs }) => inputs),
      batches,
    );
  });
}

test('an invalid row fails alone and the others are written', async () => {
  const { batcher, runs } = start();
  const settled = Promise.allSettled([1, 2, 3].map((n) => batcher.submit(n)));
  await turn();
  runs[0]?.fail(new Error('poison somewhere'));
  await turn();
  runs[1]?.fail(new Error('poison in 1 or 2'));
  await turn();
  runs[2]?.finish();
  await turn();
  runs[3]?.fail(new Error('poison in 2'));
  await turn();
  runs[4]?.finish();
  const outcomes = (await settled).map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason)));
  assert.deepEqual(outcomes, ['done 1', 'Error: poison in 2', 'done 3']);
  assert.deepEqual(
    runs.map(({ inputs }) => inputs),
    [[1, 2, 3], [1, 2], [1], [2], [3]],
  );
});

test('a batch of one that fails is not tried again', async () => {
  const { batcher, runs } = start();
  const failing = assert.rejects(batcher.submit(1), /once/);
  await turn();
  runs[0]?.fail(new Error('once'));
  await failing;
  await turn();
  assert.equal(runs.length, 1);
});

test('when the database is unavailable, all inputs fail at once and nothing is retried', async () => {
  const { batcher, runs } = start();
  const settled = Promise.allSettled([1, 2, 3].map((n) => batcher.submit(n)));
  await turn();
  runs[0]?.fail(unavailable());
  assert.deepEqual(
    (await settled).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  assert.equal(runs.length, 1);
});

test('when the database becomes unavailable during the retries, the rest fails without another statement', async () => {
  const { batcher, runs } = start();
  const settled = Promise.allSettled([1, 2, 3, 4].map((n) => batcher.submit(n)));
  await turn();
  runs[0]?.fail(new Error('poison somewhere'));
  await turn();
  runs[1]?.finish();
  await turn();
  runs[2]?.fail(new Error('poison in 3 or 4'));
  await turn();
  runs[3]?.fail(unavailable());
  assert.deepEqual(
    (await settled).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'rejected'],
  );
  assert.equal(runs.length, 4);
});

test('a batch gathers inputs until its time is over, it is full, or one of them is urgent', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { batcher, runs } = start({ maxRows: 3, gatherMs: 10 });
    const begun = () => runs.map(({ inputs }) => inputs);
    for (const n of [1, 2]) batcher.add(n);
    await turn();
    mock.timers.tick(9);
    await turn();
    assert.deepEqual(begun(), []);
    mock.timers.tick(1);
    await turn();
    assert.deepEqual(begun(), [[1, 2]]);
    for (const n of [3, 4, 5, 6]) batcher.add(n);
    runs[0]?.finish();
    await turn();
    assert.deepEqual(begun().slice(1), [[3, 4, 5]]);
    runs[1]?.finish();
    await turn();
    assert.equal(runs.length, 2, 'the time of the next batch has begun');
    batcher.add(URGENT);
    await turn();
    assert.deepEqual(begun().slice(2), [[6, URGENT]]);
    batcher.add(7);
    runs[2]?.finish();
    await turn();
    assert.equal(runs.length, 3, 'an urgent input hurries its own batch only');
    mock.timers.tick(10);
    await turn();
    assert.deepEqual(begun().slice(3), [[7]]);
    runs[3]?.finish();
    await turn();
  } finally {
    mock.timers.reset();
  }
});

// Look-ups

type Read = {
  keys: readonly string[];
  answer: (rows: readonly (string | undefined)[]) => void;
  fail: (e: Error) => void;
};

/** A look-up whose reads end when the test says so. */
function startLookup() {
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
  const { reads, find } = startLookup();
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
  const { reads, find } = startLookup();
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
  const { reads, find } = startLookup();
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
  const { reads, find } = startLookup();
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
      const { reads, find } = startLookup();
      /** What a read will answer: the state at its startLookup. */
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
