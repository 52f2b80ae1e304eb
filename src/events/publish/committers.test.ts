import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { Committers } from './publish.ts';

type Input = { store: number; n: number };

class LockTimeout extends Error {
  readonly code = '55P03';
}

/** Batches in the order of their start; each ends when the test ends it, with its inputs as its results unless it fails. */
function open(settings: { maxRows?: number; concurrencyMax?: number; maxBytes?: number } = {}) {
  const batches: { inputs: readonly Input[]; end: (error?: Error) => void }[] = [];
  const committers = new Committers<Input, number>({
    maxRows: settings.maxRows ?? 10,
    maxBytes: 1_000_000,
    concurrencyMax: settings.concurrencyMax ?? 4,
    storeOf: ({ store }) => store,
    sizeOf: () => ({ rows: 1, bytes: 10 }),
    run: (inputs) => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly number[]>();
      const end = (error?: Error) => (error === undefined ? resolve(inputs.map(({ n }) => n)) : reject(error));
      batches.push({ inputs, end });
      return promise;
    },
    waiting: { maxBytes: settings.maxBytes ?? 1_000, full: () => new Error('full') },
  });
  return { committers, batches };
}

// A batch becomes late only by `tick`, so that a pause of the machine starts no further one.
beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());
const LATE_MS = 100;

/** Resolves when the next batch has started: immediates run in the order in which they are scheduled. */
const turn = () => new Promise((resolve) => setImmediate(resolve));
async function untilBegun(batches: readonly unknown[], count: number): Promise<void> {
  for (let turns = 0; batches.length < count && turns < 1_000; turns += 1) await turn();
  assert.ok(batches.length >= count, `${batches.length} of ${count} batches have started`);
}
const storesIn = ({ inputs }: { inputs: readonly Input[] }): number[] => inputs.map(({ store }) => store);

test('inputs of one tick share a batch, and those of its time the next one', async () => {
  const { committers, batches } = open();
  const first = [1, 2, 1].map((store, n) => committers.submit({ store, n }));
  await turn();
  assert.deepEqual(batches.map(storesIn), [[1, 1, 2]]);
  const later = [committers.submit({ store: 1, n: 3 }), committers.submit({ store: 3, n: 4 })];
  await turn();
  assert.equal(batches.length, 1);
  batches[0]?.end();
  assert.deepEqual(await Promise.all(first), [0, 1, 2]);
  await untilBegun(batches, 2);
  // A store that waited during the batch is served first.
  assert.deepEqual(batches.slice(1).map(storesIn), [[3, 1]]);
  for (const { end } of batches) end();
  assert.deepEqual(await Promise.all(later), [3, 4]);
});

test('a late batch lets another one start, up to the number of connections', async () => {
  const { committers, batches } = open({ concurrencyMax: 3, maxRows: 1 });
  const all: Promise<number>[] = [];
  for (const store of [1, 2, 3, 4]) {
    all.push(committers.submit({ store, n: store }));
    await turn();
  }
  mock.timers.tick(LATE_MS - 1);
  assert.equal(batches.length, 1);
  mock.timers.tick(1);
  assert.equal(batches.length, 2);
  for (let n = 0; n < 10; n += 1) mock.timers.tick(LATE_MS);
  assert.equal(batches.length, 3);
  batches[0]?.end();
  await untilBegun(batches, 4);
  for (const { end } of batches) end();
  await Promise.all(all);
});

test('after a lock timeout the stores of the batch are isolated, each until a batch of its own commits', async () => {
  const { committers, batches } = open();
  const all = [1, 2, 3].map((store) => committers.submit({ store, n: store }).catch((error: Error) => error));
  await turn();
  assert.deepEqual(batches.map(storesIn), [[1, 2, 3]]);
  batches[0]?.end(new LockTimeout());
  await untilBegun(batches, 4);
  assert.deepEqual(batches.slice(1).map(storesIn), [[1], [2], [3]]);
  batches[1]?.end(new LockTimeout());
  batches[2]?.end();
  batches[3]?.end();
  const [locked, ...others] = await Promise.all(all);
  assert.ok(locked instanceof LockTimeout);
  assert.deepEqual(others, [2, 3]);
  // Only the first one is still isolated.
  const again = [2, 1, 3].map((store) => committers.submit({ store, n: store }));
  await untilBegun(batches, 6);
  assert.deepEqual(batches.slice(4).map(storesIn), [[2, 3], [1]]);
  for (const { end } of batches) end();
  await Promise.all(again);
  const together = [1, 2].map((store) => committers.submit({ store, n: store }));
  await untilBegun(batches, 7);
  assert.deepEqual(batches.slice(6).map(storesIn), [[1, 2]]);
  for (const { end } of batches) end();
  await Promise.all(together);
});

test('one failing input does not fail the others', async () => {
  const { committers, batches } = open();
  const all = [1, 2, 3].map((store) => committers.submit({ store, n: store }).catch((error: Error) => error));
  for (let at = 0; at < 5; at += 1) {
    await untilBegun(batches, at + 1);
    batches[at]?.end(storesIn(batches[at] ?? { inputs: [] }).includes(2) ? new Error('poison') : undefined);
  }
  const [first, poison, last] = await Promise.all(all);
  assert.deepEqual([first, (poison as Error).message, last], [1, 'poison', 3]);
});

test('beyond the limit of queued bytes an input is refused at once', async () => {
  const { committers, batches } = open({ maxRows: 1, maxBytes: 20, concurrencyMax: 1 });
  const all = [committers.submit({ store: 1, n: 0 })];
  await turn();
  all.push(...[1, 2].map((n) => committers.submit({ store: 1, n })));
  assert.equal(committers.waitingBytes, 20);
  const refused = committers.submit({ store: 2, n: 4 }).catch((error: Error) => error.message);
  assert.equal(committers.waitingBytes, 20);
  assert.equal(await refused, 'full');
  for (let at = 0; at < 3; at += 1) {
    await untilBegun(batches, at + 1);
    batches[at]?.end();
  }
  assert.deepEqual(await Promise.all(all), [0, 1, 2]);
  assert.equal(committers.waitingBytes, 0);
});

test('with random failures each store commits in order, and each input completes once', async () => {
  const events = fc.array(
    fc.record({ store: fc.integer({ min: 0, max: 4 }), fails: fc.constantFrom('-', '-', '-', '-', '-', 'l', 'p') }),
    {
      minLength: 1,
      maxLength: 40,
    },
  );
  await fc.assert(
    fc.asyncProperty(events, fc.integer({ min: 1, max: 6 }), async (given, maxRows) => {
      const written: number[] = [];
      const committers = new Committers<number, number>({
        maxRows,
        maxBytes: 1_000_000,
        concurrencyMax: 3,
        storeOf: (n) => given[n]?.store ?? 0,
        sizeOf: () => ({ rows: 1, bytes: 1 }),
        run: async (inputs) => {
          await turn();
          const fails = new Set(inputs.map((n) => given[n]?.fails));
          if (fails.has('l')) throw new LockTimeout();
          if (fails.has('p')) throw new Error('poison');
          written.push(...inputs);
          return inputs;
        },
        waiting: { maxBytes: 1_000, full: () => new Error('full') },
      });
      const answers = await Promise.allSettled(given.map((_, n) => committers.submit(n)));
      const sound = given.flatMap(({ fails }, n) => (fails === '-' ? [n] : []));
      assert.deepEqual(
        answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : [])),
        sound,
      );
      for (const store of [0, 1, 2, 3, 4]) {
        const of = (all: readonly number[]) => all.filter((n) => given[n]?.store === store);
        assert.deepEqual(of(written), of(sound));
      }
    }),
    { numRuns: 60 },
  );
});
