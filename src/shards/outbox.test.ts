/** The outbox: each change of the home database is applied once to the other database, in order, whatever is interrupted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { singleDatabase } from '../../test/setup/database.ts';
import { divide } from '../../test/setup/divided.ts';
import { waitingForLocks } from '../../test/setup/locks.ts';
import { PATIENCE_MS, until } from '../../test/setup/until.ts';
import { Outbox, type Target } from './outbox.ts';
import { enqueueForShard, lockForApplying } from './outbox-sql.ts';

const ends = cleanups();
const { sql: home } = await singleDatabase(ends);
const halves = [
  { first: 0, last: 127 },
  { first: 128, last: 255 },
];
const [, other = assert.fail()] = await divide(home, { shards: halves, secretKey: Buffer.alloc(32) }, ends);
await other`create table applied (at bigint generated always as identity, n int)`;

type Applied = Target['apply'];
const note: Applied = async (tx, { body }) => {
  await tx`insert into applied (n) values (${Number(body['n'])})`;
};

function openOutbox(apply: Applied = note): Outbox {
  const target = { id: 1, sql: other, apply };
  return new Outbox({
    home,
    // Stands still: however slow the machine is, a change is recent, and a flush ends when it is applied.
    clock: { now: () => new Date(0), monotonicMs: () => 0 },
    log: createLog('silent'),
    hasOthers: () => true,
    targetOf: () => target,
    flushMs: PATIENCE_MS,
  });
}

async function enqueue(outbox: Outbox, numbers: readonly number[], shard = 200): Promise<void> {
  await transaction(home, async (tx) => {
    for (const n of numbers) await outbox.enqueue(tx, { shard, kind: 'changelog', body: { n } });
  });
}

async function taken(): Promise<number[]> {
  const rows = await other<{ n: number }[]>`select n from applied order by at`;
  await other`truncate applied`;
  return rows.map(({ n }) => n);
}

const waiting = async (sql: Sql): Promise<number> => (await sql`select from outbox`).length;
const numbers = Array.from({ length: 120 }, (_, n) => n);

test('changes are applied in their order, and are then in neither database', async () => {
  const outbox = openOutbox();
  await enqueue(outbox, numbers);
  await outbox.flush();
  assert.deepEqual(await taken(), numbers);
  assert.equal(await waiting(home), 0);
});

test('a change whose transaction is rolled back is not applied', async () => {
  const outbox = openOutbox();
  const failing = transaction(home, async (tx) => {
    await outbox.enqueue(tx, { shard: 200, kind: 'changelog', body: { n: 1 } });
    throw new Error('rolled back');
  });
  await assert.rejects(failing, /rolled back/);
  await outbox.flush();
  assert.deepEqual(await taken(), []);
});

test('several processes apply each change once, in order', async () => {
  const outboxes = Array.from({ length: 6 }, () => openOutbox());
  const many = Array.from({ length: 600 }, (_, n) => n);
  await enqueue(openOutbox(), many);
  for (const outbox of outboxes) outbox.noteEnqueued();
  await Promise.all(outboxes.map((outbox) => outbox.flush()));
  await until(
    () => waiting(home),
    (count) => count === 0,
  );
  assert.deepEqual(await taken(), many);
});

test('changes are listed under the lock: those that another process applies meanwhile are not applied again', async () => {
  const outbox = openOutbox();
  await enqueue(outbox, [1, 2]);
  const { flushed } = await transaction(other, async (tx) => {
    await lockForApplying(tx);
    const flushing = outbox.flush();
    const isWaiting = until(
      () => waitingForLocks(other),
      (count) => count > 0,
    );
    assert.equal(await Promise.race([flushing.then(() => 'applied'), isWaiting.then(() => 'waits')]), 'waits');
    await home`delete from outbox where body ->> 'n' = '1'`;
    return { flushed: flushing };
  });
  await flushed;
  assert.deepEqual(await taken(), [2]);
});

test('a change that was applied before a crash is not applied again', async () => {
  const outbox = openOutbox();
  await enqueue(outbox, [1, 2]);
  const before = await home<{ id: number; body: string }[]>`select id, body::text from outbox order by id`;
  await outbox.flush();
  // As if the process had ended before it deleted them.
  for (const { id, body } of before)
    await home`
      insert into outbox (id, database, shard, kind, body) overriding system value values (${id}, 1, 200, 'changelog', ${body}::json)`;
  await enqueue(outbox, [3]);
  await outbox.flush();
  assert.deepEqual(await taken(), [1, 2, 3]);
  assert.equal(await waiting(home), 0);
});

for (const failing of [0, 1, 60, 119])
  test(`after a failure of change ${failing}, the changes before it stay, and it is applied later in its place`, async () => {
    let isBroken = true;
    const outbox = openOutbox(async (tx, change) => {
      await note(tx, change);
      if (isBroken && change.body['n'] === failing) throw new Error('broken');
    });
    await enqueue(outbox, numbers);
    await outbox.flush();
    assert.equal(await waiting(home), numbers.length - failing);
    isBroken = false;
    await outbox.flush();
    assert.deepEqual(await taken(), numbers);
  });

test('a shard of the home database gets no change from the outbox', async () => {
  assert.equal(await enqueueForShard(home, { shard: 5, kind: 'changelog', body: {} }), false);
  await assert.rejects(enqueue(openOutbox(), [1], 5), /has moved/);
  assert.equal(await waiting(home), 0);
});

test('changes that are applied are forgotten when later ones are', async () => {
  const outbox = openOutbox();
  await enqueue(outbox, [1, 2, 3]);
  await outbox.flush();
  await enqueue(outbox, [4]);
  await outbox.flush();
  assert.equal((await other`select from outbox_applied`).length, 1);
  await taken();
});
