/** The statements of the map of shards, and its addresses of databases, which are sealed, and again when HALCYON_SECRET_KEY changes. */
import { SHARDS } from '#core/ids.ts';
import { announceWorking, oneOf, type Queryable, type Sql } from '#db/pool.ts';
import { hasTable } from '#db/usable.ts';
import type { Vault, Sealer } from '#db/seal.ts';
import { vaultOf } from '#db/sealed-tables.ts';
import { HOME, undivided, UNOWNED, type MapDatabase, type ShardMap } from './map.ts';

/** `home`: the identity of the home database that has this database in its map; null if none has. */
export type Identity = { identity: string; home: string | null };

export function readIdentity(sql: Queryable): Promise<Identity> {
  return oneOf(sql<Identity[]>`select identity::text, home::text from database_identity`);
}

/** Writes which home database has this database in its map. */
export async function writeHome(sql: Queryable, home: string | null): Promise<void> {
  await sql`update database_identity set home = ${home}::uuid`;
}

/** Returns the version of the map; 0 if there is none. */
export async function readVersion(home: Queryable): Promise<number> {
  const [row] = await home<{ version: number }[]>`select version from shard_map`;
  return row?.version ?? 0;
}

/** The address of a database in hexadecimal digits. */
type MapRow = {
  version: number | null;
  owners: number[];
  databases: (Omit<MapDatabase, 'address'> & { address: string | null })[];
};

/** Returns the map of the home database. One statement, so that all parts have the same version. */
export async function readMap(home: Queryable): Promise<ShardMap> {
  const row = await oneOf(home<MapRow[]>`
    select (select version from shard_map) as version,
      array(
        select coalesce(o.database, ${UNOWNED}) from generate_series(0, ${SHARDS - 1}) as s (shard)
        left join shard_owner o using (shard) order by shard
      ) as owners,
      (select coalesce(json_agg(d order by id), '[]') from (
        select id, name, identity, encode(address, 'hex') as address from shard_database
      ) as d) as databases`);
  if (row.version === null) return undivided((await readIdentity(home)).identity);
  const databases = row.databases.map(({ id, name, identity, address }): MapDatabase => {
    return { id, name, identity, address: address === null ? null : Buffer.from(address, 'hex') };
  });
  return { version: row.version, owners: row.owners, databases };
}

/** Locks the map against other changes until the transaction ends. */
export async function lockMap(tx: Queryable): Promise<void> {
  await tx`lock table shard_map in exclusive mode`;
}

/** Inserts a database into the map, or changes its name and address. */
export async function upsertDatabase(tx: Queryable, database: MapDatabase): Promise<void> {
  await tx`
    insert into shard_database (id, name, identity, address)
    values (${database.id}, ${database.name}, ${database.identity}::uuid, ${database.address})
    on conflict (id) do update set name = excluded.name, address = excluded.address`;
}

export async function deleteDatabase(tx: Queryable, id: number): Promise<void> {
  await tx`delete from shard_database where id = ${id} and id <> ${HOME}`;
}

/** Assigns shards to a database, and returns the new version of the map, which processes read at once even if they are quiet. */
export async function assignShards(tx: Queryable, shards: readonly number[], database: number): Promise<number> {
  await tx`
    insert into shard_owner (shard, database) select shard, ${database} from unnest(${shards}::smallint[]) as s (shard)
    on conflict (shard) do update set database = excluded.database`;
  const { version } = await oneOf(tx<{ version: number }[]>`
    insert into shard_map (version) values (1) on conflict (is_only) do update set version = shard_map.version + 1
    returning version`);
  await announceWorking(tx);
  return version;
}

/** Returns the shards that a database has leases of: only these are delivered from it. */
export async function listLeasedShards(sql: Queryable): Promise<number[]> {
  const rows = await sql<{ shard: number }[]>`select shard from shard_lease order by shard`;
  return rows.map(({ shard }) => shard);
}

export async function listShardsWithStores(sql: Queryable): Promise<number[]> {
  const rows = await sql<{ shard: number }[]>`select distinct shard from store order by shard`;
  return rows.map(({ shard }) => shard);
}

/** Returns the identity of a database; undefined if it has no tables, or those of an older version. */
export async function findIdentity(sql: Queryable): Promise<Identity | undefined> {
  return (await hasTable(sql, 'database_identity')) ? readIdentity(sql) : undefined;
}

/** Returns whether a worker runs on a database: its session is open. */
export async function hasWorkers(sql: Queryable): Promise<boolean> {
  const rows = await sql`
    select from worker
    -- The start of a session is null for a role that may not see it, as in delivery/leases/.
    where backend_pid is not null and exists (
      select from pg_stat_get_activity(backend_pid) as session
      where coalesce(session.backend_start, backend_started) = backend_started
    )`;
  return rows.length > 0;
}

/** Returns the identity of a database, and locks it until the transaction ends. */
export async function lockIdentity(tx: Queryable): Promise<Identity> {
  await tx`select from database_identity for update`;
  return readIdentity(tx);
}

/** Lets no other transaction change a store until this one ends. */
export async function lockStores(tx: Queryable): Promise<void> {
  await tx`lock table store in share row exclusive mode`;
}

/**
 * Makes the leases of a database those of exactly these shards, so that it delivers no others. Locks leases in the order in which
 * workers lock them.
 */
export async function setLeases(tx: Queryable, shards: readonly number[]): Promise<void> {
  await tx`
    with others as materialized (
      select shard from shard_lease where shard <> all(${shards}::smallint[]) order by shard for update
    )
    delete from shard_lease where shard in (select shard from others)`;
  await tx`
    insert into shard_lease (shard) select shard from unnest(${shards}::smallint[]) as s (shard) on conflict do nothing`;
}

/** Returns the name that the sealed address of a database is bound to. */
const bindingOf = (id: number): string => `shard_database:${id}`;

export function sealAddress(sealer: Sealer, { id, url }: { id: number; url: string }): Buffer {
  return sealer.seal(url, bindingOf(id));
}

/** Returns the url of a database; undefined for the home database. Throws if no key opens it. */
export function openAddress(sealer: Sealer, { id, address }: Pick<MapDatabase, 'id' | 'address'>): string | undefined {
  return address === null ? undefined : sealer.open(address, bindingOf(id));
}

export function createAddressVault(home: Sql): Vault {
  return vaultOf(home, {
    name: 'addresses of databases',
    seals: 'shard_database',
    key: { id: 'smallint' },
    columns: ['address'],
    boundTo: ({ id }) => bindingOf(id),
  });
}
