import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatShards } from '../map.ts';
import { evenOwners, movesBetween, sumsOf, usefulMoves } from './moves.ts';

const SHARDS = 256;
const load = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 10 ** 12 }));
const cases = fc.integer({ min: 1, max: 6 }).chain((count) =>
  fc.record({
    databases: fc.constant(Array.from({ length: count }, (_, id) => id)),
    loads: fc.array(load, { minLength: SHARDS, maxLength: SHARDS }),
    owners: fc.array(fc.integer({ min: 0, max: count - 1 }), { minLength: SHARDS, maxLength: SHARDS }),
  }),
);

test('a plan makes databases as even as whole shards allow, and is empty then', () => {
  fc.assert(
    fc.property(cases, (input) => {
      const owners = evenOwners(input);
      const after = { ...input, owners, loads: input.loads.map((one) => one + 1) };
      const sums = sumsOf(after);
      const [most = 0] = input.databases.toSorted((a, b) => (sums.get(b) ?? 0) - (sums.get(a) ?? 0));
      const gap = (sums.get(most) ?? 0) - Math.min(...sums.values());
      const smallest = Math.min(...after.loads.filter((_, shard) => owners[shard] === most));
      assert.ok(gap <= smallest || gap === 0, `${gap} > ${smallest}`);
      assert.deepEqual(evenOwners({ ...input, owners }), owners);
      const moved = [...input.owners];
      for (const { from, to, shards } of movesBetween(input.owners, owners))
        for (const shard of shards) {
          assert.equal(moved[shard], from);
          moved[shard] = to;
        }
      assert.deepEqual(moved, owners);
    }),
  );
});

test('a new database gets consecutive shards, also of an empty installation', () => {
  const owners = Array.from({ length: SHARDS }, () => 0);
  for (const size of [0, 1_000]) {
    const even = evenOwners({ owners, loads: owners.map(() => size), databases: [0, 1] });
    const [move, ...others] = movesBetween(owners, even);
    assert.deepEqual(others, []);
    assert.equal(formatShards(move?.shards ?? []), '128-255');
  }
});

test('empty shards alone are moved only to a database that has none', () => {
  const owners = Array.from({ length: SHARDS }, (_, shard) => (shard < 3 ? 1 : 0));
  const loads = owners.map((_, shard) => (shard === 0 || shard === 255 ? 1_000 : 0));
  const movesOf = (databases: number[]) => {
    const input = { owners, loads, databases };
    return usefulMoves(input, evenOwners(input));
  };
  assert.deepEqual(movesOf([0, 1]), []);
  assert.ok(movesOf([0, 1, 2]).some(({ to }) => to === 2));
});
