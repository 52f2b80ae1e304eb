/** Undoes a move before its switch, and deletes the rows that a move has left in its source. */
import { setTimeout as delay } from 'node:timers/promises';
import { transaction, type Sql } from '#db/pool.ts';
import { dropGuards, dropReplication } from '#db/replication.ts';
import { setLeases } from '../adopt-sql.ts';
import { assignShards, deleteDatabase, listLeasedShards, lockMap, readMap, writeHome } from '../map-sql.ts';
import { HOME, shardsOf } from '../map.ts';
import { allowChanges, deleteMove, deleteMovedShards, deleteOutboxOf, listMoves, type Move } from './move-sql.ts';
import { replicationOf, type Place } from './move.ts';
import { deleteMoved } from './tables.ts';

const ALL_SHARDS = Array.from({ length: 256 }, (_, shard) => shard);

type OnDeleted = (table: string, rows: number) => void;

/** Removes a database without shards from the installation; it can be used as a new one. */
async function removeDatabase(home: Sql, target: Place): Promise<void> {
  await transaction(home, async (tx) => {
    await lockMap(tx);
    await deleteOutboxOf(tx, target.id);
    await deleteDatabase(tx, target.id);
    await assignShards(tx, [], HOME);
  });
  await transaction(target.sql, async (tx) => {
    await setLeases(tx, ALL_SHARDS);
    await writeHome(tx, null);
  });
}

/** Undoes a move that is not switched. Can be repeated. */
export async function abortMove(
  home: Sql,
  { move, source, target, onDeleted }: { move: Move; source: Place; target: Place; onDeleted: OnDeleted },
): Promise<void> {
  await transaction(source.sql, (tx) => allowChanges(tx, move.shards));
  await dropReplication(replicationOf(move, source, target));
  await dropGuards(source.sql, move.id);
  await deleteMoved(target, move.shards, onDeleted);
  await deleteMove(home, move.id);
  const [map, moves] = [await readMap(home), await listMoves(home)];
  const isUsed = shardsOf(map, target.id).length > 0 || moves.some(({ source: from }) => from === target.id);
  if (!isUsed && target.id !== HOME) await removeDatabase(home, target);
}

/**
 * Deletes the rows that an ended move has left in its source. Can be repeated. Throws if the source has the shards. `followedMs`: how
 * long after the switch a process may have the old map; until then changes are refused.
 */
export async function dropMoved(
  home: Sql,
  { move, source, followedMs, onDeleted }: { move: Move; source: Place; followedMs: number; onDeleted: OnDeleted },
): Promise<void> {
  const owned = new Set([...shardsOf(await readMap(home), source.id), ...(await listLeasedShards(source.sql))]);
  const kept = move.shards.find((shard) => owned.has(shard));
  if (move.dateEnded === null || kept !== undefined)
    throw new Error(`${source.name} owns shard ${kept}, so its rows are not deleted`);
  await delay(Math.max(0, followedMs - (move.switchedForMs ?? 0)));
  await deleteMoved(source, move.shards, onDeleted);
  await dropGuards(source.sql, move.id);
  await deleteMovedShards(source.sql, move.shards);
  await deleteMove(home, move.id);
}
