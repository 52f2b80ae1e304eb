/** Starts a move of shards: checks both databases, and writes the move and a new target into the home database. */
import { DatabaseError, transaction, type Sql, type Tx } from '#db/pool.ts';
import { readReplicating, trySubscription } from '#db/replication.ts';
import type { Sealer } from '#db/seal.ts';
import { addressBinding } from '../adopt.ts';
import {
  assignShards,
  listShardsWithStores,
  lockMap,
  readIdentity,
  readMap,
  readVersion,
  setLeases,
  upsertDatabase,
  writeHome,
} from '../map-sql.ts';
import { HOME, formatShards, shardsOf, type ShardMap } from '../map.ts';
import { enqueueApps, hasRows, insertMove, listMovedShards, listMoves, type Move } from './move-sql.ts';
import { notSubscribed, type Place } from './move.ts';
import { listMovedTables } from './tables.ts';

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
  const address = sealer.seal(target.url, addressBinding(target.id));
  await upsertDatabase(tx, { id: target.id, name: target.name, identity, address });
  await enqueueApps(tx, target.id);
  // The version rises, so that processes open the database.
  await assignShards(tx, [], HOME);
}

/** Starts a move and returns it. The target may be new: `prepare` prepares it, once both databases have what a move needs. */
export async function startMove(
  home: Sql,
  {
    shards,
    source,
    target,
    homeName,
    sealer,
    prepare,
  }: {
    shards: readonly number[];
    source: Place;
    target: Place;
    homeName: string;
    sealer: Sealer;
    prepare: () => Promise<void>;
  },
): Promise<Move> {
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
