import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS } from '#core/ids.ts';
import type { LeaseRow } from './leases-sql.ts';
import { planShards, sharesOf } from './share.ts';

const ids = (count: number) => Array.from({ length: count }, (_, n) => 1_000 + n);
const none: ReadonlySet<number> = new Set();
const free = (): LeaseRow[] => Array.from({ length: SHARDS }, (_, shard) => ({ shard, owner: null, fence: 0 }));
const heldBy = (leases: readonly LeaseRow[], id: number) =>
  leases.filter(({ owner }) => owner === id).map(({ shard }) => shard);

/** All look at the same list, then each carries out its plan; if two reach for a shard, the first gets it. */
function round(leases: LeaseRow[], live: readonly number[], dead = none): void {
  const plans = live.map((self) => ({
    self,
    ...planShards(leases, { self, live, dead }, none),
  }));
  const taken = new Set<number>();
  for (const { self, take, handBack } of plans) {
    for (const shard of take) {
      const row = leases[shard];
      if (row !== undefined && !taken.has(shard)) row.owner = self;
      taken.add(shard);
    }
    for (const row of leases) if (handBack.includes(row.shard)) row.owner = null;
  }
}

const sizes = (leases: readonly LeaseRow[], live: readonly number[]) =>
  live.map((id) => heldBy(leases, id).length).toSorted((a, b) => a - b);

for (const count of [1, 3, 7, 100, 300]) {
  test(`the shares of ${count} workers are even and cover all shards`, () => {
    const counts = [...sharesOf(ids(count), SHARDS).values()];
    assert.equal(counts.length, count);
    assert.equal(
      counts.reduce((sum, one) => sum + one, 0),
      SHARDS,
    );
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 1);
  });

  test(`${count} workers that start together have their shares after the first look`, () => {
    const leases = free();
    round(leases, ids(count));
    assert.equal(leases.filter(({ owner }) => owner === null).length, 0);
    assert.ok((sizes(leases, ids(count)).at(-1) ?? 0) <= Math.ceil(SHARDS / count));
  });
}

for (const [before, after] of [
  [1, 3],
  [3, 7],
  [7, 300],
] as const) {
  test(`an even split between ${before} workers becomes one between ${after}, two looks after the others came`, () => {
    const leases = free();
    round(leases, ids(before));
    round(leases, ids(after));
    round(leases, ids(after));
    const all = sizes(leases, ids(after));
    assert.equal(leases.filter(({ owner }) => owner === null).length, 0);
    assert.ok((all.at(-1) ?? 0) - (all[0] ?? 0) <= 1);
  });
}

test('living workers share the shards of dead ones at their first look, without handing any back', () => {
  const leases = free();
  round(leases, ids(7));
  const live = ids(7).slice(2);
  round(leases, live, new Set(ids(7).slice(0, 2)));
  const all = sizes(leases, live);
  assert.equal(
    all.reduce((sum, one) => sum + one, 0),
    SHARDS,
  );
  assert.ok((all.at(-1) ?? 0) - (all[0] ?? 0) <= 1);
});

test('a shard that is being handed back is neither taken nor handed back again', () => {
  const leases = free();
  round(leases, ids(1));
  const leaving = new Set(heldBy(leases, 1_000).slice(128));
  const who = { self: 1_000, live: [1_000, 2_000], dead: none };
  assert.deepEqual(planShards(leases, who, leaving), { take: [], handBack: [] });
});
