/** The statements that make a database the owner of its shards. */
import type { Queryable } from '#db/pool.ts';
import { readIdentity, type Identity } from './map-sql.ts';

/** Returns the identity of a database; undefined if it has no tables, or those of an older version. */
export async function findIdentity(sql: Queryable): Promise<Identity | undefined> {
  const [table] = await sql<{ isThere: boolean }[]>`select to_regclass('database_identity') is not null as "isThere"`;
  return table?.isThere === true ? readIdentity(sql) : undefined;
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
