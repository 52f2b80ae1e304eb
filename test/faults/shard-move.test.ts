/** Shards move between databases while events are published; crashes at each step, and moves that are undone, lose nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sql } from '#db/pool.ts';
import { listLeasedShards, readMap } from '#shards/map-sql.ts';
import { shardsIn } from '#shards/map.ts';
import { listMoves } from '#shards/move/move-sql.ts';
import { STEPS, type Step } from '#shards/move/move.ts';
import { cleanups } from '../setup/cleanups.ts';
import { addStore, countRows, createDatabase, Mover, publisherOn, startLogicalServer } from '../setup/shard-move.ts';
import { until } from '../setup/until.ts';

const SHARDS = shardsIn({ first: 64, last: 127 });
const MOVING = [64, 70, 127];
const STAYING = [63, 128];

const ends = cleanups();

async function open(version: 15 | 18, prefix: string, times: { numbersMs?: number } = {}) {
  const server = servers.get(version) ?? (await startLogicalServer(ends, version));
  servers.set(version, server);
  const urls: Record<string, string> = {};
  for (const name of ['home', 'b', 'c']) urls[name] = await createDatabase(server, `${prefix}_${name}`);
  const mover = new Mover(ends, urls, times);
  const stores = new Map<number, number>();
  for (const shard of [...STAYING, ...MOVING]) stores.set(shard, await addStore(mover.home, shard));
  return { mover, stores };
}
const servers = new Map<15 | 18, Awaited<ReturnType<typeof startLogicalServer>>>();

const errorCode = (error: unknown): unknown => (error as NodeJS.ErrnoException).code;

/** Publishes to all stores, one event of each at a time, until it is stopped; retries what is refused because a shard moves. */
async function startWriter(mover: Mover, stores: ReadonlyMap<number, number>) {
  const names = ['home', 'b', 'c'];
  const pools = await Promise.all(names.map(async (name) => (await mover.place(name)).sql));
  const publishers = pools.map((sql) => publisherOn(sql));
  const acknowledged = new Map<number, number[]>();
  const stopping = new AbortController();
  let refused = 0;
  const nameOf = async (shard: number): Promise<number> => {
    const map = await readMap(mover.home);
    const name = map.databases.find(({ id }) => id === map.owners[shard])?.name ?? 'home';
    return Math.max(0, names.indexOf(name));
  };
  const writeTo = async (shard: number, store: number) => {
    const ids: number[] = [];
    acknowledged.set(store, ids);
    for (let n = 1; !stopping.signal.aborted;) {
      const publish = publishers[await nameOf(shard)];
      try {
        const [event] = (await publish?.(store, [n])) ?? [];
        assert.ok(event !== undefined);
        ids.push(event.id);
        n += 1;
      } catch (error) {
        if (errorCode(error) !== 'HS001') throw error;
        refused += 1;
      }
    }
  };
  const running = Promise.all([...stores].map(([shard, store]) => writeTo(shard, store)));
  return {
    acknowledged,
    stop: async () => {
      stopping.abort();
      await running;
      return { refused };
    },
  };
}

const eventIds = async (sql: Sql, store: number): Promise<number[]> =>
  (
    await sql<{ id: number }[]>`select id from event where shard = ${store % 256} and store_id = ${store} order by id`
  ).map(({ id }) => id);

/** Everything that a move makes and that must not be left. */
async function tracesOf(sql: Sql): Promise<unknown> {
  const [row] = await sql`
    select (select count(*)::int from pg_publication) as publications,
      (select count(*)::int from pg_subscription s join pg_database d on d.oid = s.subdbid where d.datname = current_database()) as subscriptions,
      (select count(*)::int from pg_replication_slots where database = current_database()) as slots,
      (select count(*)::int from pg_trigger where tgname like 'refuse_moved%') as triggers,
      (select count(*)::int from moved_shard) as moved,
      (select count(*)::int from shard_move) as moves,
      (select count(*)::int from shard_database) as databases,
      (select home::text from database_identity) as home`;
  return { ...row, leases: await listLeasedShards(sql) };
}

for (const version of [18, 15] as const)
  test(`PostgreSQL ${version}: shards move there and back while events are published`, async (t) => {
    const { mover, stores } = await open(version, `there${version}`);
    const writer = await startWriter(mover, stores);
    const before = await countRows(mover.home, SHARDS);
    const empty = Object.keys(before).filter((table) => before[table] === 0);
    for (const [to, from] of [
      ['b', 'home'],
      ['c', 'b'],
      ['home', 'c'],
    ] as const) {
      const { refusedMs } = await mover.move(SHARDS, to);
      t.diagnostic(`${from} to ${to}: refused for ${Math.round(refusedMs ?? 0)} ms`);
      assert.ok(refusedMs !== undefined && refusedMs < 2_500, String(refusedMs));
      const source = (await mover.place(from)).sql;
      await mover.dropMoved();
      const left = await countRows(source, SHARDS);
      const kept = from === 'home' ? MOVING.length : 0;
      assert.deepEqual([left['store'], left['erased_store']], [kept, kept], 'the home database keeps all stores');
      assert.deepEqual(
        { ...left, store: 0, erased_store: 0 },
        { ...before, ...Object.fromEntries(Object.keys(before).map((name) => [name, 0])) },
      );
    }
    const { refused } = await writer.stop();
    t.diagnostic(`${refused} publishes refused`);
    for (const store of stores.values()) {
      const acknowledged = writer.acknowledged.get(store) ?? [];
      assert.ok(acknowledged.length > 0);
      assert.equal(new Set(acknowledged).size, acknowledged.length, 'no id is used twice');
      assert.deepEqual(
        await eventIds(mover.home, store),
        acknowledged.toSorted((a, b) => a - b),
      );
    }
    const after = await countRows(mover.home, SHARDS);
    const grows = new Set(['event', 'resource', 'delivery']);
    for (const [table, count] of Object.entries(before))
      if (!grows.has(table)) assert.equal(after[table], count, table);
    assert.deepEqual(
      empty.filter((table) => !grows.has(table)),
      [],
      'every table has rows',
    );
    assert.deepEqual((await listLeasedShards(mover.home)).length, 256);
  });

/** Deletes what the test has published, for a comparison of all rows. */
async function forget(sql: Sql): Promise<void> {
  await sql`delete from event`;
  await sql`delete from resource`;
  await sql`delete from delivery`;
}

/** The state of two databases, without what differs in each run. */
async function stateOf(mover: Mover, other: string): Promise<unknown> {
  const state: Record<string, unknown> = {};
  for (const name of ['home', other]) {
    const { sql } = await mover.place(name);
    state[name] = { rows: await countRows(sql, [...SHARDS, ...STAYING]), traces: await tracesOf(sql) };
  }
  const { owners } = await readMap(mover.home);
  return { ...state, owners };
}

test('a move that is killed after any step ends in the same state when it is run again', async () => {
  const { mover } = await open(18, 'killed', { numbersMs: 0 });
  await mover.move(SHARDS, 'b');
  const away = await stateOf(mover, 'b');
  await mover.dropMoved();
  await mover.move(SHARDS, 'home');
  const back = await stateOf(mover, 'b');
  await mover.dropMoved();
  for (const step of STEPS)
    for (const [to, state] of [
      ['b', away],
      ['home', back],
    ] as const) {
      await mover.killAfter(step, SHARDS, to);
      // The last step has ended the move.
      if (step !== 'finish') await mover.move(SHARDS, to);
      assert.deepEqual(await stateOf(mover, 'b'), state, `killed after ${step} on the way to ${to}`);
      await mover.dropMoved();
    }
});

test('a move that is undone after any step before the switch leaves nothing', async () => {
  const { mover, stores } = await open(18, 'undone', { numbersMs: 0 });
  await mover.start(SHARDS, 'b');
  await mover.abort(SHARDS, 'b');
  const before = await stateOf(mover, 'b');
  const publish = publisherOn(mover.home);
  for (const [n, step] of STEPS.slice(0, STEPS.indexOf('switch')).entries()) {
    await mover.killAfter(step, SHARDS, 'b');
    const isBlocked = STEPS.indexOf(step) >= STEPS.indexOf('block');
    const publishing = publish(stores.get(MOVING[0] ?? 0) ?? 0, [n]);
    if (isBlocked) await assert.rejects(publishing, (error) => errorCode(error) === 'HS001');
    else {
      await publishing;
      await forget(mover.home);
    }
    await mover.abort(SHARDS, 'b');
    const after = await stateOf(mover, 'b');
    assert.deepEqual(after, before, step);
  }
});

test('a move that is undone ends the replication at once, also if a table of the source is locked for long', async () => {
  const { mover } = await open(18, 'undone_wal');
  await mover.killAfter('guard', SHARDS, 'b');
  const slots = () => mover.home`select from pg_replication_slots where database = current_database()`;
  assert.equal((await slots()).length, 1);
  const { aborted } = await mover.home.begin(async (tx) => {
    await tx`lock table webhook in access share mode`;
    const aborting = mover.abort(SHARDS, 'b');
    await until(slots, ({ length }) => length === 0);
    return { aborted: aborting };
  });
  await aborted;
  assert.deepEqual([...(await listMoves(mover.home))], []);
});

test('a move that fails or is stopped while changes are refused allows them again', async () => {
  const { mover, stores } = await open(18, 'failed', { numbersMs: 0 });
  const publish = publisherOn(mover.home);
  for (const failing of ['block', 'catch up', 'hand over'] as const satisfies Step[]) {
    const afterStep = (step: Step) => (step === failing ? Promise.reject(new Error(step)) : Promise.resolve());
    await assert.rejects(mover.move(SHARDS, 'b', { afterStep }), { message: failing });
    await publish(stores.get(MOVING[0] ?? 0) ?? 0, [STEPS.indexOf(failing)]);
    assert.equal((await listLeasedShards(mover.home)).length, 256);
  }
  let isStopped = false;
  const onStep = (step: Step) => void (isStopped ||= step === 'catch up');
  await assert.rejects(mover.move(SHARDS, 'b', { onStep, isStopped: () => isStopped }), { name: 'StoppedError' });
  await publish(stores.get(MOVING[0] ?? 0) ?? 0, [99]);
  assert.ok((await mover.move(SHARDS, 'b')).refusedMs !== undefined);
});

const [SHARD = 0] = MOVING;
const storeOf = (stores: ReadonlyMap<number, number>): number => stores.get(SHARD) ?? 0;
const afterwards = (step: Step, run: () => Promise<void>) => async (done: Step) => {
  if (done === step) await run();
};

test('the switch waits until the target has everything, and meanwhile the source accepts changes again', async () => {
  const { mover, stores } = await open(18, 'late', { numbersMs: 0 });
  const publish = publisherOn(mover.home);
  const target = await (await mover.place('b')).sql.reserve();
  let late = 0;
  const release = async () => {
    await target`rollback`;
  };
  await mover.move(SHARDS, 'b', {
    // The target cannot apply the last event before its table is free.
    afterStep: afterwards('guard', async () => {
      await target`begin`;
      await target`lock table resource in exclusive mode`;
      await publish(storeOf(stores), [1]);
    }),
    onLate: () => {
      late += 1;
      if (late === 1) void publish(storeOf(stores), [2]).then(release);
    },
    onStep: (step) => void (step === 'hand over' && late === 0 && release()),
  });
  target.release();
  assert.ok(late > 0);
  assert.equal((await eventIds((await mover.place('b')).sql, storeOf(stores))).length, 2);
});

test('changes are refused for about two seconds at most if the map is locked', async () => {
  const { mover } = await open(18, 'locked', { numbersMs: 0 });
  const other = await mover.home.reserve();
  const release = async () => {
    await other`rollback`;
  };
  const late: number[] = [];
  await mover.move(SHARDS, 'b', {
    afterStep: afterwards('hand over', async () => {
      if (late.length > 0) return;
      await other`begin`;
      await other`lock table shard_map in exclusive mode`;
      // So that the test fails, and does not hang, if the try never ends.
      setTimeout(() => late.length === 0 && void release(), 10_000).unref();
    }),
    onLate: (refusedMs, reason) => {
      assert.equal(reason, 'locked');
      late.push(refusedMs);
      void release();
    },
  });
  other.release();
  assert.equal(late.length, 1);
  assert.ok((late[0] ?? Infinity) < 6_000, `${late[0]} ms`);
});

test('the switch waits for transactions that have changed rows of the shards', async () => {
  const { mover, stores } = await open(18, 'running', { numbersMs: 0 });
  const writer = await mover.home.reserve();
  let committing: Promise<unknown> = Promise.resolve();
  const waiting = () => mover.home`select from pg_locks where locktype = 'advisory' and not granted`;
  const isOver = Promise.withResolvers<void>();
  await mover.move(SHARDS, 'b', {
    afterStep: afterwards('guard', async () => {
      await writer`begin`;
      await writer`update webhook set name = 'changed' where store_id = ${storeOf(stores)}`;
    }),
    onStep: (step) => {
      if (step !== 'block') return;
      const seen = until(waiting, (rows) => rows.length > 0).catch(() => {});
      committing = Promise.race([seen, isOver.promise]).then(() => writer`commit`);
    },
  });
  isOver.resolve();
  await committing;
  writer.release();
  const [row] = await (
    await mover.place('b')
  ).sql<{ name: string }[]>`
    select name from webhook where store_id = ${storeOf(stores)}`;
  assert.equal(row?.name, 'changed');
});

test('after a move one database has each lease under a new fencing token, and its ids are above those of the source', async () => {
  const { mover, stores } = await open(18, 'after', { numbersMs: 0 });
  await mover.home`update shard_lease set fence = 7, owner = 1`;
  const before = await publisherOn(mover.home)(storeOf(stores), [1, 2, 3]);
  await mover.move(SHARDS, 'b');
  const { sql } = await mover.place('b');
  assert.deepEqual(await listLeasedShards(sql), SHARDS);
  assert.deepEqual(
    (await listLeasedShards(mover.home)).filter((shard) => SHARDS.includes(shard)),
    [],
  );
  const [lease] = await sql<{ owner: number | null; fence: number }[]>`select owner, fence from shard_lease limit 1`;
  assert.deepEqual(lease, { owner: null, fence: 8 });
  const [event] = await publisherOn(sql)(storeOf(stores), [4]);
  assert.ok((event?.id ?? 0) > Math.max(...before.map(({ id }) => id)));
  const [webhook] = await sql<{ n: number }[]>`select nextval('id_n') as n`;
  const [here] = await mover.home<{ n: number }[]>`select nextval('id_n') as n`;
  assert.ok((webhook?.n ?? 0) > (here?.n ?? 0));
});

test('of moved rows only large tables keep theirs, which are not deleted if the database has the shards again', async () => {
  const { mover } = await open(18, 'again', { numbersMs: 0 });
  await mover.move(SHARDS, 'b');
  const before = await countRows(mover.home, SHARDS);
  assert.deepEqual(
    [before['webhook'], before['recovery'], before['idempotency_key'], before['delivery_done']],
    [0, 0, 0, MOVING.length],
  );
  await mover.home`insert into shard_lease (shard) values (${SHARD})`;
  await assert.rejects(mover.dropMoved(), /owns shard 64/);
  assert.deepEqual(await countRows(mover.home, SHARDS), before);
});

test('the database of another installation is refused', async () => {
  const { mover } = await open(18, 'other', { numbersMs: 0 });
  const { sql } = await mover.place('b');
  await addStore(sql, STAYING[0] ?? 0);
  await assert.rejects(mover.start(SHARDS, 'b'), /another installation/);
  assert.equal((await listLeasedShards(sql)).length, 256);
});
