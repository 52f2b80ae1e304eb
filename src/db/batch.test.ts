import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBatcher } from './batch.ts';

type Run = { inputs: readonly number[]; finish: () => void; fail: (error: Error) => void };

/** A batcher whose runs end when the test ends them. The size of an input is its number: rows = bytes = n. */
function start(limits: { maxRows?: number; maxBytes?: number } = {}) {
  const runs: Run[] = [];
  let atOnce = 0;
  const batcher = createBatcher<number, string>({
    maxRows: limits.maxRows ?? 100,
    maxBytes: limits.maxBytes ?? 100,
    sizeOf: (n) => ({ rows: limits.maxRows ? n : 1, bytes: limits.maxBytes ? n : 1 }),
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

for (const limit of ['maxRows', 'maxBytes'] as const) {
  test(`a batch ends before ${limit}, and a larger input runs alone`, async () => {
    const { batcher, runs } = start({ [limit]: 10 });
    const all = [4, 6, 1, 50, 2].map((n) => batcher.submit(n));
    for (let i = 0; i < 4; i += 1) {
      await turn();
      runs[i]?.finish();
    }
    await Promise.all(all);
    assert.deepEqual(
      runs.map(({ inputs }) => inputs),
      [[4, 6], [1], [50], [2]],
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
  await batcher.idle();
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

test('idle waits for running and waiting batches', async () => {
  const { batcher, runs } = start();
  await batcher.idle();
  const all = [batcher.submit(1)];
  await turn();
  all.push(batcher.submit(2));
  let isIdle = false;
  const idle = batcher.idle().then(() => (isIdle = true));
  runs[0]?.finish();
  await turn();
  assert.equal(isIdle, false);
  runs[1]?.finish();
  await Promise.all(all);
  await idle;
  assert.equal(isIdle, true);
});
