/**
 * The begin and the end of moves of shards: checks both databases, and writes a move and a new database into the map; undoes a move before
 * its switch; deletes the rows that a move has left in its source, and removes a database without shards.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError, transaction, type Sql, type Tx } from '#db/pool.ts';
import { dropGuards, readReplicating, trySubscription } from '#db/replication.ts';
import type { Sealer } from '#db/seal.ts';
import {
  sealAddress,
  assignShards,
  deleteDatabase,
  listLeasedShards,
  listShardsWithStores,
  lockMap,
  readIdentity,
  readMap,
  readVersion,
  setLeases,
  upsertDatabase,
  writeHome,
} from '../map-sql.ts';
import { ALL_SHARDS, HOME, formatShards, shardsOf, type MapDatabase, type ShardMap } from '../map.ts';
import {
  deleteMove,
  deleteMovedShards,
  deleteOutboxOf,
  enqueueApps,
  hasRows,
  insertMove,
  listMovedShards,
  listMoves,
  type Move,
  deleteMoved,
  listMovedTables,
  type OnDeleted,
} from './move-sql.ts';
import { notSubscribed, undoMove, type Place } from './move.ts';

/** Beside its slot, a subscription needs some for tables that are being copied. */
const SLOTS = 3;

/** Throws a `DatabaseError` if the source cannot be replicated to the target. */
async function requireReplicable(source: Place, target: Place): Promise<void> {
  const from = await readReplicating(source.sql);
  const to = await readReplicating(target.sql);
  const faults = [
    from.walLevel !== 'logical' &&
      `${source.name} has wal_level=${from.walLevel}: set wal_level=logical, and restart its PostgreSQL`,
    from.freeSlots < SLOTS &&
      `${source.name} has ${from.freeSlots} free replication slots: raise max_replication_slots by ${SLOTS}, and restart its PostgreSQL`,
    !from.isReplicator && `The user of ${source.name} may not replicate: alter role … replication`,
    !from.isOwner && `The user of ${source.name} does not own the tables: connect as their owner`,
    !to.isOwner && `The user of ${target.name} does not own the tables: connect as their owner`,
    !from.mayPublish && `The user of ${source.name} may not create a publication: grant create on database …`,
    !(to.maySubscribe && to.mayPublish) &&
      `The user of ${target.name} may not create a subscription: grant pg_create_subscription (PostgreSQL 15: superuser) and create on the database`,
  ].filter((fault) => fault !== false);
  if (faults.length > 0) throw new DatabaseError(faults.join('. '));
  await trySubscription(target.sql, source.url).catch((error: unknown) => {
    throw notSubscribed(source, target, error);
  });
}

/** Throws a `DatabaseError` if the target has rows of the shards, for example of an earlier move. */
async function requireNoRows(target: Place, shards: readonly number[]): Promise<void> {
  const left = new Set(await listMovedShards(target.sql));
  if (shards.some((shard) => left.has(shard)))
    throw new DatabaseError(
      `${target.name} still has rows of these shards from before they moved away: delete them by halcyon shards drop-moved`,
    );
  for (const table of await listMovedTables(target.sql, { withStores: target.id !== HOME }))
    if (await hasRows(target.sql, table, shards))
      throw new DatabaseError(
        `${target.name} has rows of these shards in the table ${table}: use a new database, or delete the rows`,
      );
}

/** Throws a `DatabaseError` if a database that is not in the map has stores. */
async function requireEmpty({ sql, name }: Place): Promise<void> {
  if ((await listShardsWithStores(sql)).length > 0 || (await readVersion(sql)) > 0)
    throw new DatabaseError(`${name} is the database of another installation, which has stores: use a new database`);
}

/** Returns the owner of the shards; throws a `DatabaseError` if they have several, or it is the target. */
export function ownerOf(map: ShardMap, shards: readonly number[], target: { id: number; name: string }): number {
  const [owner, ...others] = new Set(shards.map((shard) => map.owners[shard]));
  if (owner === undefined || others.length > 0) {
    const parts = map.databases.map(({ id, name }) => {
      const owned = shardsOf(map, id).filter((shard) => shards.includes(shard));
      return owned.length === 0 ? [] : [`${name} has ${formatShards(owned)}`];
    });
    throw new DatabaseError(
      `These shards are in several databases: move those of each apart (${parts.flat().join('; ')})`,
    );
  }
  if (owner === target.id) throw new DatabaseError(`${target.name} has these shards already`);
  return owner;
}

/** Returns the id of a database that is not in the map. */
export function newIdIn({ databases }: ShardMap): number {
  return Math.max(...databases.map(({ id }) => id)) + 1;
}

/** Makes the home database of an installation without a map the owner of all shards. */
async function createMap(tx: Tx, name: string): Promise<void> {
  const { databases, owners } = await readMap(tx);
  const { identity } = await readIdentity(tx);
  if (databases.length > 1) return;
  await upsertDatabase(tx, { id: HOME, name, identity, address: null });
  await assignShards(tx, [...owners.keys()], HOME);
}

/** Takes a new database, which has no stores, into the installation; it has no shards yet. */
async function addDatabase(
  tx: Tx,
  target: Place,
  { identity, sealer }: { identity: string; sealer: Sealer },
): Promise<void> {
  await upsertDatabase(tx, { id: target.id, name: target.name, identity, address: sealAddress(sealer, target) });
  await enqueueApps(tx, target.id);
  // The version rises, so that processes open the database.
  await assignShards(tx, [], HOME);
}

/** Starts a move and returns it. The target may be new: `prepare` prepares it, once both databases have what a move needs. */
export async function startMove(
  home: Sql,
  planned: {
    shards: readonly number[];
    source: Place;
    target: Place;
    homeName: string;
    sealer: Sealer;
    prepare: () => Promise<void>;
  },
): Promise<Move> {
  const { shards, source, target, homeName, sealer, prepare } = planned;
  await requireReplicable(source, target);
  await prepare();
  await requireNoRows(target, shards);
  const { identity: ofHome } = await readIdentity(home);
  const { identity } = await readIdentity(target.sql);
  const map = await readMap(home);
  const isNew = !map.databases.some(({ id }) => id === target.id);
  if (isNew) {
    await requireEmpty(target);
    await transaction(target.sql, async (tx) => {
      await writeHome(tx, ofHome);
      await setLeases(tx, []);
    });
  }
  return transaction(home, async (tx) => {
    await lockMap(tx);
    if (map.version === 0) await createMap(tx, homeName);
    if (isNew) await addDatabase(tx, target, { identity, sealer });
    await insertMove(tx, { shards: [...shards], source: source.id, target: target.id });
    const move = (await listMoves(tx)).at(-1);
    if (move === undefined) throw new Error('The move was not written');
    return move;
  });
}

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
  await undoMove(move, { source, target }, onDeleted);
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

type PlannedMove = { from: number; to: number; shards: number[] };

type Input = {
  /** The id of the database that owns each shard. */
  owners: readonly number[];
  /** Bytes or rows of each shard. */
  loads: readonly number[];
  databases: readonly number[];
};

export function sumsOf({ owners, loads, databases }: Input): Map<number, number> {
  const sums = new Map(databases.map((database) => [database, 0]));
  for (const [shard, owner] of owners.entries()) sums.set(owner, (sums.get(owner) ?? 0) + (loads[shard] ?? 0));
  return sums;
}

/**
 * Returns the owners after shards were moved one by one from the database with the most to that with the least, while that makes them
 * more even: then they differ by no more than the smallest shard of the larger one. Empty shards count as one byte, so that a new
 * database gets its share of them too.
 */
export function evenOwners({ owners, loads, databases }: Input): number[] {
  const input = { owners: [...owners], loads: loads.map((load) => load + 1), databases };
  const sums = sumsOf(input);
  for (;;) {
    const sorted = databases.toSorted((a, b) => (sums.get(b) ?? 0) - (sums.get(a) ?? 0));
    const [most = HOME, least = HOME] = [sorted[0], sorted.at(-1)];
    const gap = (sums.get(most) ?? 0) - (sums.get(least) ?? 0);
    const loadOf = (shard: number): number => input.loads[shard] ?? 0;
    const movable = input.owners.flatMap((owner, shard) => (owner === most && loadOf(shard) < gap ? [shard] : []));
    // The last one that fits: so the moved shards are consecutive, where their sizes allow it.
    const shard = movable.findLast((one) => loadOf(one) <= gap / 2) ?? movable.at(-1);
    if (shard === undefined) return input.owners;
    input.owners[shard] = least;
    sums.set(most, (sums.get(most) ?? 0) - loadOf(shard));
    sums.set(least, (sums.get(least) ?? 0) + loadOf(shard));
  }
}

/** Returns the moves that lead from some owners to others. */
export function movesBetween(before: readonly number[], after: readonly number[]): PlannedMove[] {
  const changed = before.flatMap((from, shard) => {
    const to = after[shard];
    return to === undefined || to === from ? [] : [{ from, to, shard }];
  });
  return [...Map.groupBy(changed, ({ from, to }) => `${from} ${to}`).values()].flatMap((group) =>
    group[0] === undefined ? [] : [{ from: group[0].from, to: group[0].to, shards: group.map(({ shard }) => shard) }],
  );
}

/** Returns the moves that lead to other owners; none if they are all of empty shards, unless a database has no shards yet. */
export function usefulMoves(before: Input, after: readonly number[]): PlannedMove[] {
  const isUsed = before.databases.every((database) => before.owners.includes(database));
  const sums = sumsOf({ ...before, owners: after });
  const isSame = [...sumsOf(before)].every(([database, sum]) => sums.get(database) === sum);
  return isUsed && isSame ? [] : movesBetween(before.owners, after);
}
