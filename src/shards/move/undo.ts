/** Undoes a move before its switch, and deletes the rows that a move has left in its source. */
import { setTimeout as delay } from 'node:timers/promises';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { dropGuards, dropReplication } from '#db/replication.ts';
import { setLeases, assignShards, deleteDatabase, listLeasedShards, lockMap, readMap, writeHome } from '../map-sql.ts';
import { HOME, shardsOf, type MapDatabase, type ShardMap } from '../map.ts';
import { allowChanges, deleteMove, deleteMovedShards, deleteOutboxOf, listMoves, type Move } from './move-sql.ts';
import { replicationOf, type Place } from './move.ts';
import { deleteMoved } from './tables.ts';

const ALL_SHARDS = Array.from({ length: 256 }, (_, shard) => shard);

type OnDeleted = (table: string, rows: number) => void;

async function leaveMap(tx: Tx, id: number): Promise<void> {
  await deleteOutboxOf(tx, id);
  await deleteDatabase(tx, id);
  await assignShards(tx, [], HOME);
}

/** Returns the databases that have no shards, and that no move needs. */
export function unusedIn(map: ShardMap, moves: readonly Move[]): MapDatabase[] {
  const inMoves = new Set(moves.flatMap(({ source, target }) => [source, target]));
  return map.databases.filter(({ id }) => id !== HOME && !inMoves.has(id) && shardsOf(map, id).length === 0);
}

/** Removes a database without shards from the installation; it can be used as a new one. */
export async function removeDatabase(home: Sql, target: Place): Promise<void> {
  await transaction(home, async (tx) => {
    await lockMap(tx);
    await leaveMap(tx, target.id);
  });
  await transaction(target.sql, async (tx) => {
    await setLeases(tx, ALL_SHARDS);
    await writeHome(tx, null);
  });
}

/** Removes the unused databases from the map, without a connection to them: in a restored map their addresses may lead elsewhere. */
export async function removeUnused(home: Sql): Promise<void> {
  if (unusedIn(await readMap(home), await listMoves(home)).length === 0) return;
  await transaction(home, async (tx) => {
    await lockMap(tx);
    for (const { id } of unusedIn(await readMap(tx), await listMoves(tx))) await leaveMap(tx, id);
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
  const unused = unusedIn(await readMap(home), await listMoves(home));
  if (unused.some(({ id }) => id === target.id)) await removeDatabase(home, target);
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
