/** The buckets that slow guessing: exact, shared by all processes, refilled by the given clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createThrottle, type Bucket } from '#identity/accounts/throttle.ts';
import { openPool } from '#db/pool.ts';
import { testDatabase } from '../setup/database.ts';

const { sql, address } = await testDatabase();
const throttle = createThrottle({ sql });
const START = new Date('2026-07-01T10:00:00.250Z');
const after = (seconds: number) => new Date(START.getTime() + seconds * 1_000);

/** Holds 10; one is refilled every 60 s. */
const account = (subject: string): Bucket => ({ limit: 'sign-in to account', subject });
/** Holds 50. */
const place = (subject: string): Bucket => ({ limit: 'sign-in from address', subject });

async function takeMany(count: number, bucket: Bucket, now = START, from = throttle): Promise<number> {
  const taken = await Promise.all(Array.from({ length: count }, () => from.take([bucket], now)));
  return taken.filter(({ allowed }) => allowed).length;
}
async function waitFor(bucket: Bucket, now: Date): Promise<number> {
  const taken = await throttle.take([bucket], now);
  return taken.allowed ? 0 : taken.retryAfterSeconds;
}

test('of a hundred concurrent tries exactly as many are allowed as the bucket holds', async () => {
  for (let round = 0; round < 10; round += 1) assert.equal(await takeMany(100, account(`crowd ${round}`)), 10);
});

test('the count holds across processes and restarts', async (t) => {
  assert.equal(await takeMany(6, account('restart')), 6);
  const pool = openPool(address, { connections: 4, applicationName: 'test-second' });
  t.after(() => pool.end({ timeout: 0 }));
  assert.equal(await takeMany(20, account('restart'), START, createThrottle({ sql: pool })), 4);
});

test('one try is refilled every minute, up to the size of the bucket', async () => {
  await takeMany(10, account('refill'));
  assert.equal(await waitFor(account('refill'), after(59)), 1);
  assert.equal(await takeMany(5, account('refill'), after(60)), 1);
  assert.equal(await takeMany(50, account('refill'), after(86_400)), 10);
});

test('a rejected try gets its waiting time to the second', async () => {
  await takeMany(10, account('wait'));
  for (const [passed, wait] of [
    [0, 60],
    [20, 40],
    [59.5, 1],
  ] as const)
    assert.equal(await waitFor(account('wait'), after(passed)), wait);
});

test('of a hundred concurrent rejections each has the same waiting time', async () => {
  const taken = await Promise.all(Array.from({ length: 100 }, () => throttle.take([account('waiting')], START)));
  const waits = taken.flatMap((one) => (one.allowed ? [] : [one.retryAfterSeconds]));
  assert.deepEqual([waits.length, [...new Set(waits)]], [90, [60]]);
});

test('a returned try does not count', async () => {
  for (let i = 0; i < 30; i += 1) {
    const taken = await throttle.take([account('right'), place('right')], START);
    assert.ok(taken.allowed);
    await taken.giveBack();
  }
  assert.equal(await takeMany(20, account('right')), 10);
});

test('a late return does not overfill a bucket', async () => {
  const taken = await throttle.take([account('late')], START);
  assert.ok(taken.allowed);
  await taken.giveBack();
  await taken.giveBack();
  assert.equal(await takeMany(20, account('late'), after(600)), 10);
});

test('a rejected try counts nowhere', async () => {
  await takeMany(50, place('flood'));
  for (let i = 0; i < 20; i += 1)
    assert.equal((await throttle.take([place('flood'), account('victim')], START)).allowed, false);
  assert.equal(await takeMany(20, account('victim')), 10, 'a rejected address used up no try of the account');
  for (let i = 0; i < 20; i += 1)
    assert.equal((await throttle.take([place('office'), account('victim')], START)).allowed, false);
  assert.equal(await takeMany(60, place('office')), 50, 'a rejected account used up no try of the address');
});

test('the same subject in two buckets is counted separately', async () => {
  await takeMany(10, account('same'));
  assert.equal(await takeMany(60, place('same')), 50);
});

test('the database does not reveal the counted subjects', async () => {
  await throttle.take([account('eve@example.com')], START);
  const rows = await sql<{ row: string }[]>`select throttle::text as row from throttle`;
  assert.ok(rows.length > 0);
  for (const { row } of rows) assert.ok(!row.includes(Buffer.from('eve@example.com').toString('hex')));
});
