import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS } from '#core/ids.ts';
import type { LeaseRow, SeenWorker } from './leases-sql.ts';
import { planShards, sharesOf, OtherWorkers } from './balance.ts';

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

const LEASE_MS = 1_000;
const noLeases: LeaseRow[] = [];
const both = (beat: number, isDisconnected = false): SeenWorker[] => [
  { id: 1, beat: 7, isDisconnected: false },
  { id: 2, beat, isDisconnected },
];
const at = (ms: number) => ({ requestedAtMs: ms, nowMs: ms });

test('a worker is dead when its counter has not moved for a lease on our own clock', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5), noLeases, at(0));
  rivals.observe(both(5), noLeases, at(1_000));
  assert.deepEqual(rivals.dead(), []);
  rivals.observe(both(5), noLeases, at(1_001));
  assert.deepEqual(rivals.dead(), [{ id: 2, beat: 5 }]);
  assert.deepEqual(rivals.live(), [1]);
  rivals.observe(both(6), noLeases, at(1_002));
  assert.deepEqual(rivals.dead(), []);
  assert.deepEqual(rivals.live(), [2, 1]);
});

test('an answer that we read late because we were frozen declares no worker dead', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5), noLeases, at(0));
  rivals.observe(both(5), noLeases, { requestedAtMs: 100, nowMs: 60_000 });
  assert.deepEqual(rivals.dead(), []);
});

test('an owner without a worker row is dead after a lease, too', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  const leases = [{ shard: 3, owner: 9, fence: 1 }];
  rivals.observe([{ id: 1, beat: 1, isDisconnected: false }], leases, at(0));
  assert.deepEqual(rivals.dead(), []);
  rivals.observe([{ id: 1, beat: 2, isDisconnected: false }], leases, at(1_001));
  assert.deepEqual(rivals.dead(), [{ id: 9, beat: 0 }]);
});

test('a worker whose row is gone is forgotten', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5), noLeases, at(0));
  rivals.observe([{ id: 1, beat: 1, isDisconnected: false }], noLeases, at(5_000));
  assert.deepEqual(rivals.dead(), []);
  assert.deepEqual(rivals.live(), [1]);
});

test('a worker whose session is missing for a tenth of a lease is dead', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5), noLeases, at(0));
  rivals.observe(both(5, true), noLeases, at(50));
  assert.equal(rivals.hasDisconnected(), true);
  rivals.observe(both(5, true), noLeases, at(150));
  assert.deepEqual(rivals.dead(), []);
  rivals.observe(both(5, true), noLeases, at(151));
  assert.deepEqual(rivals.dead(), [{ id: 2, beat: 5 }]);
  assert.equal(rivals.hasDisconnected(), false);
});

test('a worker that beats with a new session in time is alive', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5, true), noLeases, at(0));
  rivals.observe(both(6), noLeases, at(90));
  rivals.observe(both(6, true), noLeases, at(150));
  rivals.observe(both(6, true), noLeases, at(250));
  assert.deepEqual(rivals.dead(), []);
});

test('a process whose own session has ended considers no other dead because of its session for a lease', () => {
  const rivals = new OtherWorkers(1, LEASE_MS);
  rivals.observe(both(5, true), noLeases, at(0));
  rivals.ownSessionEnded(50);
  rivals.observe(both(5, true), noLeases, at(900));
  assert.deepEqual(rivals.dead(), []);
  rivals.observe(both(6, true), noLeases, at(1_050));
  rivals.observe(both(6, true), noLeases, at(1_151));
  assert.deepEqual(rivals.dead(), [{ id: 2, beat: 6 }]);
});
