import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { recordBatch } from './record-sql.ts';
import type { Entry } from '../policy/entry.ts';
import { createRecorder } from './record.ts';

const WORKER = 77;
const RIVAL = 88;
const SHARD = 5;
const now = new Date();
const reply = { code: 500, headers: '', body: 'no' };

let next = 1;

const { sql } = await testDatabase();
await sql`update shard_lease set owner = ${WORKER}, fence = 3 where shard = ${SHARD}`;

// PostgreSQL refuses attempts that begin to be recorded with these durations, and responses that contain this text.
// Before the first test: a test runs while the rest of the file is evaluated, and a trigger waits for its locks.
await sql.unsafe(`
  create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused by the test'; end $$;
  create function fail() returns trigger language plpgsql as $$ begin raise 'invalid page' using errcode = 'XX001'; end $$`);
for (const table of ['attempt', 'delivery_done'])
  await sql.unsafe(`
    create trigger refuse_answers before insert on ${table} for each row when (new.response_body = 'poison') execute function refuse();
    create trigger fail_attempts before insert on ${table} for each row when (new.duration_ms = 777) execute function fail();
    create trigger refuse_attempts before insert on ${table} for each row when (new.duration_ms = 666) execute function refuse()`);

/** Many times what a batch takes, in reads of the same database. */
const READS_MAX = 5_000;

/** Owns the shard for this many checks of its fencing token: a batch that cannot be written is retried meanwhile. */
const LOOKS = 24;

function recorderWith(fence: number | undefined, onLost: (shard: number) => void = () => {}, isOrdered = false) {
  let [current, looks] = [fence, 0];
  const look = () => ((looks += 1) > LOOKS ? undefined : current);
  const lost = (shard: number): void => {
    current = undefined;
    onLost(shard);
  };
  const recorder = createRecorder(
    { sql, clock: systemClock, log: createLog('silent') },
    {
      ownership: { workerId: WORKER, fenceOf: look, lastFenceOf: look, lost },
      quarantine: { markers: new Map() },
      lanes: { isOrdered: () => isOrdered },
    },
  );
  return { record: (entry: Entry) => new Promise<boolean>((resolve) => recorder.record(entry, resolve)) };
}

async function pendingRow() {
  const id = dailyIdOf(dayOf(now), (next += 1), SHARD);
  const delivery = { id, storeId: 261, webhookId: 517, epoch: 0, eventId: id, attempts: 0, faults: 0, dueAt: now };
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (${SHARD}, ${id}, 261, 517, 0, ${id}, ${now})`;
  return delivery;
}

/** Of a day so far in the future that it has no partition. */
async function farRow() {
  const far = { ...(await pendingRow()), id: dailyIdOf(30_000, (next += 1), SHARD) };
  await sql`update delivery set id = ${far.id} where id = ${far.eventId}`;
  return far;
}

const entryOf = (delivery: Entry['delivery'], own: Partial<Entry> = {}): Entry => ({
  shard: SHARD,
  fence: 3,
  delivery,
  attempt: { startedAt: now, durationMs: 12, outcome: { kind: 'refused', reply, retryAfterMs: 0 } },
  attempts: 1,
  faults: 0,
  next: { state: 'failed' },
  webhook: null,
  isWarning: false,
  ...own,
});

const failing = {
  consecutiveFailures: 1,
  firstFailureAt: now,
  isWarned: false,
  pausedUntil: null,
  probeAt: null,
  isPendingDisable: false,
};

async function traceOf(id: number) {
  const [row] = await sql<{ pending: number; done: number; attempts: number }[]>`
    select (select count(*) from delivery where id = ${id}) as pending,
      (select count(*) from delivery_done where id = ${id}) as done,
      (select count(*) from attempt_log where delivery_id = ${id} and outcome is not null) as attempts`;
  return { ...row };
}

test('an ended delivery moves from pending to done, with its attempt', async () => {
  const delivery = await pendingRow();
  assert.equal(await recorderWith(3).record(entryOf(delivery)), true);
  assert.deepEqual(await traceOf(delivery.id), { pending: 0, done: 1, attempts: 1 });
});

test('an attempt has the revision of its webhook, for at most eight bytes', async () => {
  const { attempt } = entryOf(await pendingRow());
  assert.ok(attempt !== null);
  for (const table of ['attempt', 'delivery_done'] as const) {
    const others = await sql<{ name: string }[]>`
      select attname as name from pg_attribute
      where attrelid = ${table}::regclass and attnum > 0 and attname <> 'webhook_revision' order by attnum`;
    for (const revision of [2_000_000_000, undefined]) {
      const delivery = await pendingRow();
      const sent = { ...attempt, ...(revision !== undefined && { revision }) };
      const end: Entry['next'] = table === 'attempt' ? { dueAt: now } : { state: 'failed' };
      await recorderWith(3).record(entryOf(delivery, { attempt: sent, next: end }));
      const [row] = await sql<{ revision: number | null; added: number }[]>`
        select webhook_revision as revision,
          pg_column_size(r.*) - pg_column_size(row(${sql(others.map(({ name }) => name))})) as added
        from ${sql(table)} r where event_id = ${delivery.eventId}`;
      assert.equal(row?.revision, revision ?? null);
      assert.ok((row?.added ?? 100) <= 8, `${table}: ${row?.added} bytes`);
    }
  }
});

test('the last attempt of a delivery is stored with the ended delivery, earlier ones by themselves', async () => {
  const delivery = await pendingRow();
  const recorder = recorderWith(3);
  await recorder.record(entryOf(delivery, { next: { dueAt: now } }));
  const outcome = { kind: 'delivered' as const, reply: { ...reply, code: 204 } };
  const attempt = { startedAt: new Date(now.getTime() + 60_000), durationMs: 7, outcome };
  const again = { ...delivery, attempts: 1 };
  await recorder.record(entryOf(again, { attempt, attempts: 2, next: { state: 'successful' } }));
  const log = await sql`
    select n, outcome, response_code as code, duration_ms as "durationMs" from attempt_log
    where delivery_id = ${delivery.id} order by date_started desc`;
  assert.deepEqual(
    [...log],
    [
      { n: 2, outcome: 'delivered', code: 204, durationMs: 7 },
      { n: 1, outcome: 'refused', code: 500, durationMs: 12 },
    ],
  );
  const [rows] = await sql`select count(*)::int as n from attempt where delivery_id = ${delivery.id}`;
  assert.deepEqual({ ...rows }, { n: 1 });
});

test('recording the same entry again changes nothing', async () => {
  const [over, retried] = [await pendingRow(), await pendingRow()];
  const dueAt = new Date(now.getTime() + 60_000);
  const entries = [entryOf(over), entryOf(retried, { next: { dueAt } })];
  const fences = [{ shard: SHARD, fence: 3 }];
  const write = () => recordBatch(sql, WORKER, fences, entries, { keepResponses: true, marked: [], now });
  assert.deepEqual(await write(), [SHARD]);
  assert.deepEqual(await write(), [SHARD]);
  assert.deepEqual(await traceOf(over.id), { pending: 0, done: 1, attempts: 1 });
  assert.deepEqual(await traceOf(retried.id), { pending: 1, done: 0, attempts: 1 });
});

test('a worker whose shard has another owner records nothing', async () => {
  const delivery = await pendingRow();
  const lost: number[] = [];
  const recorder = recorderWith(2, (shard) => lost.push(shard));
  assert.equal(await recorder.record(entryOf(delivery, { fence: 2 })), false);
  assert.deepEqual(await traceOf(delivery.id), { pending: 1, done: 0, attempts: 0 });
  assert.deepEqual(lost, [SHARD]);
});

test('an attempt from before the shard was lost and regained is not recorded, and causes no loss of the shard', async () => {
  const delivery = await pendingRow();
  const lost: number[] = [];
  const recorder = recorderWith(3, (shard) => lost.push(shard));
  const [late, present] = [
    recorder.record(entryOf(delivery, { fence: 2 })),
    recorder.record(entryOf(await pendingRow())),
  ];
  assert.deepEqual([await late, await present, lost], [false, true, []]);
  assert.deepEqual(await traceOf(delivery.id), { pending: 1, done: 0, attempts: 0 });
});

test('of two attempts with one number the second changes nothing', async () => {
  const [retried, unsent] = [await pendingRow(), await pendingRow()];
  const dueAt = new Date(now.getTime() + 60_000);
  const attempt = {
    startedAt: now,
    durationMs: 1,
    outcome: { kind: 'internal' as const, why: 'EAI_AGAIN', reply: null },
  };
  for (const delivery of [retried, unsent]) await recorderWith(3).record(entryOf(delivery, { next: { dueAt } }));
  await recorderWith(3).record(entryOf(retried, { next: { state: 'successful' } }));
  await recorderWith(3).record(entryOf(unsent, { attempt, attempts: 0, next: { dueAt: now } }));
  for (const { id } of [retried, unsent]) assert.deepEqual(await traceOf(id), { pending: 1, done: 0, attempts: 1 });
  const rows = await sql`select attempts, due_at from delivery where id = any (${[retried.id, unsent.id]})`;
  assert.deepEqual(
    [...rows],
    [retried, unsent].map(() => ({ attempts: 1, due_at: dueAt })),
  );
});

test('a take-over waits for a batch that is being written, and the next batch sees it', async () => {
  const delivery = await pendingRow();
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`update shard_lease set owner = ${RIVAL}, fence = 4 where shard = ${SHARD}`;
  const recorded = recorderWith(3).record(entryOf(delivery));
  // The statement reads the lease `for share`, so it waits until the take-over commits.
  const waiting = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await until(waiting, (rows) => rows.length === 1);
  await blocker`commit`;
  blocker.release();
  assert.equal(await recorded, false);
  assert.deepEqual(await traceOf(delivery.id), { pending: 1, done: 0, attempts: 0 });
  await sql`update shard_lease set owner = ${WORKER}, fence = 3 where shard = ${SHARD}`;
});

test('a cancelled statement is retried, and no part of the history is lost', async () => {
  const delivery = await pendingRow();
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`select from shard_lease where shard = ${SHARD} for update`;
  const recorded = recorderWith(3).record(entryOf(delivery));
  const waiting = () => sql<{ pid: number; since: string }[]>`
    select pid, query_start::text as since from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  const first = await until(waiting, (rows) => rows.length > 0);
  await sql`select pg_cancel_backend(pid) from unnest(${first.map(({ pid }) => pid)}::int[]) as pid`;
  // Not before the retry: a late cancel would end whatever statement its connection runs by then.
  await until(waiting, (rows) => rows.some(({ since }) => first.every((one) => one.since !== since)));
  await blocker`commit`;
  blocker.release();
  assert.equal(await recorded, true);
  assert.deepEqual(await attemptsOf(delivery.id), [{ n: 1, outcome: 'refused', code: reply.code, body: reply.body }]);
});

test('a result is recorded at once if a disable or the next delivery of its resource waits for it', async (t) => {
  // The time in which a batch gathers results does not pass.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ordered = entryOf(await pendingRow());
  const disabling = entryOf(await pendingRow(), { webhook: { ...failing, isPendingDisable: true } });
  for (const [entry, isOrdered] of [[ordered, true] as const, [disabling, false] as const]) {
    const recorded: boolean[] = [];
    void recorderWith(3, undefined, isOrdered)
      .record(entry)
      .then((is) => recorded.push(is));
    for (let reads = 0; recorded.length === 0 && reads < READS_MAX; reads += 1) await sql`select`;
    assert.deepEqual(recorded, [true]);
  }
});

test('a retry counts the attempt and moves the due time', async () => {
  const delivery = await pendingRow();
  const dueAt = new Date(now.getTime() + 60_000);
  const webhook = failing;
  await recorderWith(3).record(entryOf(delivery, { next: { dueAt }, webhook }));
  const [row] = await sql<{ attempts: number; dueAt: Date }[]>`
    select attempts, due_at as "dueAt" from delivery where id = ${delivery.id}`;
  assert.deepEqual({ ...row }, { attempts: 1, dueAt });
  const [state] = await sql`select consecutive_failures from webhook_state where webhook_id = 517`;
  assert.deepEqual({ ...state }, { consecutive_failures: 1 });
});

test('of several states of a webhook in one batch the last one is stored', async () => {
  const recorder = recorderWith(3);
  const deliveries = [await pendingRow(), await pendingRow(), await pendingRow()];
  await Promise.all(
    deliveries.map((delivery, index) =>
      recorder.record(
        entryOf(delivery, {
          webhook: { ...failing, consecutiveFailures: index + 2 },
        }),
      ),
    ),
  );
  const [state] = await sql`select consecutive_failures from webhook_state where webhook_id = 517`;
  assert.deepEqual({ ...state }, { consecutive_failures: 4 });
});

test('an end without an attempt, and an internal fault, leave no attempt row', async () => {
  const [unsent, retried] = [await pendingRow(), await pendingRow()];
  const outcome = { kind: 'internal' as const, why: 'EAI_AGAIN', reply: null };
  await recorderWith(3).record(entryOf(unsent, { attempt: null, attempts: 0 }));
  await recorderWith(3).record(
    entryOf(retried, { attempt: { startedAt: now, durationMs: 1, outcome }, attempts: 0, next: { dueAt: now } }),
  );
  assert.deepEqual(await traceOf(unsent.id), { pending: 0, done: 1, attempts: 0 });
  assert.deepEqual(await traceOf(retried.id), { pending: 1, done: 0, attempts: 0 });
});

async function attemptsOf(id: number) {
  const rows = await sql`
    select n, outcome, response_code as code, response_body as body from attempt_log where delivery_id = ${id}`;
  return [...rows];
}

test('if the response of an outcome is refused, the rest of it is recorded, and so is the rest of its batch', async () => {
  const [good, poison] = [await pendingRow(), await pendingRow()];
  const outcome = { kind: 'refused' as const, reply: { ...reply, body: 'poison' }, retryAfterMs: 0 };
  const recorder = recorderWith(3);
  const written = [
    recorder.record(entryOf(poison, { attempt: { startedAt: now, durationMs: 12, outcome } })),
    recorder.record(entryOf(good)),
  ];
  assert.deepEqual(await Promise.all(written), [true, true]);
  assert.deepEqual(await attemptsOf(poison.id), [{ n: 1, outcome: 'refused', code: 500, body: null }]);
  assert.deepEqual(await attemptsOf(good.id), [{ n: 1, outcome: 'refused', code: 500, body: 'no' }]);
});

test('an outcome that is refused without its response, too, ends the delivery as internal', async () => {
  const delivery = await pendingRow();
  const attempt = { ...entryOf(delivery).attempt, durationMs: 666 } as Entry['attempt'];
  const dueAt = new Date(now.getTime() + 60_000);
  assert.equal(await recorderWith(3).record(entryOf(delivery, { attempt, next: { dueAt } })), true);
  assert.deepEqual(await traceOf(delivery.id), { pending: 0, done: 1, attempts: 1 });
  assert.deepEqual(await attemptsOf(delivery.id), [{ n: 1, outcome: 'internal', code: null, body: null }]);
});

test('an attempt that cannot be written is left out of the history; others are delayed by a second', async () => {
  const [good, poison] = [await pendingRow(), await pendingRow()];
  const attempt = { ...entryOf(poison).attempt, durationMs: 777 } as Entry['attempt'];
  const recorder = recorderWith(3);
  const written = [
    recorder.record(entryOf(poison, { attempt, next: { state: 'successful' } })),
    recorder.record(entryOf(good)),
  ];
  assert.deepEqual(await Promise.all(written), [true, true]);
  assert.deepEqual(await traceOf(poison.id), { pending: 0, done: 1, attempts: 0 });
  const [done] = await sql`select state from delivery_done where id = ${poison.id}`;
  assert.deepEqual({ ...done }, { state: 'successful' }, 'it contains nothing about the delivery');
  assert.deepEqual(await traceOf(good.id), { pending: 0, done: 1, attempts: 1 });
});

test('the state of the webhook is recorded even if nothing else of the outcome can be', async () => {
  const webhook = { ...failing, consecutiveFailures: 12, isPendingDisable: true };
  const [aside, far] = [await pendingRow(), await farRow()];
  const attempt = { ...entryOf(aside).attempt, durationMs: 666 } as Entry['attempt'];
  const entries = [entryOf(aside, { attempt, webhook }), entryOf(far, { webhook })];
  for (const entry of entries) {
    await sql`delete from webhook_state`;
    assert.equal(await recorderWith(3).record(entry), true);
    const states = await sql`select is_condemned from webhook_state`;
    assert.deepEqual([...states], [{ is_condemned: true }]);
  }
});

test('a delivery of a day without partitions ends without a record and delays no other', async () => {
  const [over, retried] = [await farRow(), await farRow()];
  const dueAt = new Date(now.getTime() + 60_000);
  assert.equal(await recorderWith(3).record(entryOf(over)), true);
  assert.equal(await recorderWith(3).record(entryOf(retried, { next: { dueAt } })), true);
  const left = await sql`select id, attempts, due_at from delivery where id = any (${[over.id, retried.id]})`;
  assert.deepEqual([...left], [{ id: retried.id, attempts: 1, due_at: dueAt }]);
});

test('a delivery dead-lettered by internal faults shows the attempt with the reason', async () => {
  const delivery = await pendingRow();
  const outcome = { kind: 'threw' as const, why: 'TypeError', reply: null };
  await recorderWith(3).record(entryOf(delivery, { attempt: { startedAt: now, durationMs: 0, outcome } }));
  assert.deepEqual(await attemptsOf(delivery.id), [{ n: 1, outcome: 'internal', code: null, body: null }]);
});
