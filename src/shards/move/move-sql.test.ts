/** The switch of a move: which changes of the home database the target gets; and what the source refuses. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { createGuards } from '#db/replication.ts';
import { singleDatabase } from '../../../test/setup/database.ts';
import { assignShards, readIdentity, readMap, upsertDatabase } from '../map-sql.ts';
import { HOME } from '../map.ts';
import {
  followDeclarations,
  insertMove,
  listMoves,
  markSwitched,
  refuseChanges,
  switchOwner,
  type Move,
} from './move-sql.ts';

const { sql } = await singleDatabase();
const SHARDS = [64, 65];
const ALL = Array.from({ length: 256 }, (_, shard) => shard);

beforeEach(async () => {
  await sql`truncate outbox, shard_move, shard_owner, shard_database, shard_map, moved_shard, store cascade`;
  const { identity } = await readIdentity(sql);
  await upsertDatabase(sql, { id: HOME, name: 'home', identity, address: null });
  for (const id of [1, 2])
    await upsertDatabase(sql, {
      id,
      name: `other ${id}`,
      identity: `00000000-0000-0000-0000-00000000000${id}`,
      address: Buffer.from('url'),
    });
});

async function newMove(source: number, target: number): Promise<Move> {
  await assignShards(sql, ALL, source);
  await sql`update shard_map set date_created = '-infinity'`;
  await insertMove(sql, { shards: SHARDS, source, target });
  const [move = assert.fail()] = await listMoves(sql);
  return move;
}

async function enqueue(database: number, shard: number | null, kind: string): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    insert into outbox (database, shard, kind, body) values (${database}, ${shard}, ${kind}, '{}') returning id`;
  return row?.id ?? 0;
}

const outbox = async (): Promise<string[]> =>
  (
    await sql<{ line: string }[]>`
    select concat_ws(' ', database, coalesce(shard::text, 'all'), kind) as line from outbox order by id`
  ).map(({ line }) => line);

test('changes of the shards go to the target, those of all shards to both', async () => {
  const move = await newMove(1, 2);
  for (const [shard, kind] of [
    [64, 'store'],
    [66, 'store'],
    [null, 'access'],
    [null, 'app'],
  ] as const)
    await enqueue(1, shard, kind);
  assert.equal(await transaction(sql, (tx) => switchOwner(tx, move, [])), true);
  assert.deepEqual(await outbox(), ['2 64 store', '1 66 store', '1 all access', '1 all app', '2 all access']);
  const { owners } = await readMap(sql);
  assert.deepEqual([owners[64], owners[65], owners[66]], [2, 2, 1]);
  assert.notEqual((await listMoves(sql))[0]?.switchedForMs, null);
});

for (const [shard, kind] of [
  [64, 'changelog'],
  [null, 'access'],
] as const)
  test(`the home database does not take shards over while the source has to apply a change (${kind})`, async () => {
    const move = await newMove(1, HOME);
    const applied = await enqueue(1, shard, kind);
    await enqueue(1, 66, 'changelog');
    assert.equal(await transaction(sql, (tx) => switchOwner(tx, move, [])), false);
    assert.equal((await readMap(sql)).owners[64], 1);
    assert.equal(await transaction(sql, (tx) => switchOwner(tx, move, [applied])), true);
    assert.equal((await readMap(sql)).owners[64], HOME);
    assert.deepEqual(await outbox(), [...(shard === null ? ['1 all access'] : []), '1 66 changelog']);
  });

test('the source refuses changes of the shards, and lets them be deleted after the switch', async () => {
  const move = await newMove(HOME, 1);
  const ranges = [{ first: 64, last: 65 }];
  await createGuards(sql, { move: move.id, tables: ['store', 'webhook_hour'], ranges });
  const insertHour = (shard: number) => sql`
    insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
    values (${shard}, ${256 + shard}, now(), 'delivered', 1, array[5])`;
  const insertStore = (id: number) => sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${id % 256}, ${id}, 'Store', 'a.example.com', 'a@example.com', 'UTC', now(), now())`;
  const deleteHours = () => sql`delete from webhook_hour where shard = 64`;
  const moves = { code: 'HS001' };
  await insertHour(64);
  await transaction(sql, (tx) => refuseChanges(tx, move));
  assert.equal((await sql`select from shard_lease where shard = any(${SHARDS}::smallint[])`).length, 0);
  await assert.rejects(insertHour(65), moves);
  await assert.rejects(deleteHours(), moves);
  await assert.rejects(sql`update webhook_hour set attempts = 2 where shard = 64`, moves);
  await assert.rejects(insertStore(256 + 64), moves);
  await insertHour(66);

  await transaction(sql, (tx) => switchOwner(tx, move, []));
  await insertStore(256 + 64);
  await markSwitched(sql, SHARDS);
  await assert.rejects(insertHour(65), moves);
  assert.equal((await deleteHours()).count, 1);
});

test('after a move all stores of the target follow what their apps declare, again from the first one', async () => {
  await sql`
    insert into app_webhook (client, url, key, date_modified)
    select client, 'https://app.example.com/', 'sealed', now() from unnest('{1, 2}'::bigint[]) as a (client)`;
  await sql`
    insert into app_webhook_change (client, after_shard, after_store, stores_followed, stores_total) values (2, 7, 263, 200, 300)`;
  for (let run = 0; run < 2; run += 1) {
    await followDeclarations(sql);
    const rows = await sql<{ client: number; shard: number; followed: number }[]>`
      select client, after_shard as shard, stores_followed as followed from app_webhook_change order by client`;
    assert.deepEqual(
      rows.map(({ client, shard, followed }) => [client, shard, followed]),
      [
        [1, -1, 0],
        [2, -1, 0],
      ],
    );
  }
});
