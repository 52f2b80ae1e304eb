/** The statements of `doctor` about several databases. */
import type { Queryable } from '#db/pool.ts';
import { EVENT_BLOCK } from '#db/numbers.ts';
import { firstIdOfDay, SHARDS } from '#core/ids.ts';

/** Returns which database owns each shard, without shards that have none. */
export async function listOwners(home: Queryable): Promise<ReadonlyMap<number, number>> {
  const rows = await home<{ shard: number; database: number }[]>`select shard, database from shard_owner`;
  return new Map(rows.map(({ shard, database }) => [shard, database]));
}

/** `oldest`: the date of the oldest change that the database has not applied. */
export type Outbox = { database: number; changes: number; oldest: Date };

/** Counts the changes that other databases have not applied yet. */
export function countOutbox(home: Queryable) {
  return home<Outbox[]>`
    select database, count(*) as changes, min(date_created) as oldest from outbox group by database order by database`;
}

/** `id` is equal for databases of the same server. */
export type ServerUse = { id: string; connectionsMax: number; connections: number };

export async function readServerUse(sql: Queryable): Promise<ServerUse | undefined> {
  const [row] = await sql<ServerUse[]>`
    select pg_postmaster_start_time()::text || ' ' || current_setting('data_directory', true) as id,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as "connectionsMax",
      (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections`;
  return row;
}

/** `isLost`: the server has removed WAL that the slot needs. */
export type Slot = { name: string; isActive: boolean; isLost: boolean; retainedBytes: number };

/** Returns the replication slots of this database and of standbys. */
export function listSlots(sql: Queryable) {
  return sql<Slot[]>`
    select slot_name::text as name, active as "isActive", wal_status = 'lost' as "isLost",
      coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end,
        restart_lsn), 0)::float8 as "retainedBytes"
    from pg_replication_slots
    where database is null or database = current_database()
    order by slot_name limit 20`;
}

/** `used`: the last number of the sequence; null if none was used. `newest`: the highest number in a row. */
export type Sequence = { name: string; used: number | null; newest: number | null };

/**
 * Returns the sequence of ids, and those of a day's events and deliveries, with the highest number in their tables. Reads one index
 * entry per shard and table.
 */
export function listSequences(sql: Queryable, day: number) {
  const first = firstIdOfDay(day);
  const end = firstIdOfDay(day + 1);
  return sql<Sequence[]>`
    with shard as (select s from generate_series(0, ${SHARDS - 1}::int) as g (s)),
    newest as (
      select 'id_n' as name, 1 as block, (select max(m) from shard, lateral (
        select max(id) / ${SHARDS}::int as m from webhook where shard = s) as w) as n
      union all
      select ${`event_n_d${day}`}, ${EVENT_BLOCK}::int, (select max(m) from shard, lateral (
        select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from event where shard = s and id >= ${first} and id < ${end}) as w)
      union all
      select ${`delivery_n_d${day}`}, 1, greatest(
        (select max(m) from shard, lateral (
          select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from delivery where shard = s and id >= ${first} and id < ${end}) as w),
        (select max(m) from shard, lateral (
          select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from delivery_done
          where shard = s and id >= ${first} and id < ${end}) as w))
    )
    select n.name, q.last_value + n.block - 1 as used, n.n as newest
    from newest n join pg_sequences q on q.schemaname = current_schema() and q.sequencename = n.name
    order by n.name`;
}
