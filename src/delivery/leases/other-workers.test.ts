import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LeaseRow, SeenWorker } from './leases-sql.ts';
import { OtherWorkers } from './other-workers.ts';

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
