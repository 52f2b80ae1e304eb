/** An outbox table in PostgreSQL, with its statements. `search_path` is its schema, which no migration of Halcyon makes. */
import { oneOf, openPool, type Queryable } from '#db/pool.ts';
import {
  checkTables,
  KEY_HOURS,
  RESOURCE_BYTES,
  ROUND_BYTES,
  SILENCE_MS,
  WAITING_ROWS_MAX,
  type Lag,
  type OutboxRow,
  type Settled,
  type Source,
  type Table,
} from './relay-source.ts';

/** Returns the definition of both tables. The types of texts keep numbers as they are written. */
export function postgresTables({ schema, outbox, dead }: Table): string {
  const prefix = schema === undefined ? '' : `"${schema}".`;
  return `create table ${prefix}"${outbox}" (
  id bigint generated always as identity primary key,
  store_id bigint not null,
  event text not null,
  resource text not null,
  date_created timestamptz not null default now(),
  date_attempted timestamptz
);
create table ${prefix}"${dead}" (
  dead_id bigint generated always as identity primary key,
  id bigint not null,
  store_id bigint,
  event text,
  resource text,
  reason text not null,
  date_refused timestamptz not null
);`;
}

/** A lock of PostgreSQL with two numbers, of which this is the first. Those of `advisory-lock.ts` have one. */
const LOCK = 7_209;

/** Limits how long the server keeps the session, and with it the lock, of a machine that vanished; returns the database. */
export async function beginSession(sql: Queryable): Promise<{ database: string }[]> {
  await sql`
    select set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
      set_config('tcp_keepalives_count', '3', false)`;
  return sql<{ database: string }[]>`select current_database()::text as database`;
}

/** Returns the schema that has the table, by default the first of `search_path`, and its columns with those of the other table. */
export function readColumns(
  sql: Queryable,
  schema: string | null,
  outbox: string,
  dead: string,
): Promise<{ schema: string; table: string; column: string; type: string }[]> {
  return sql<{ schema: string; table: string; column: string; type: string }[]>`
    select n.nspname::text as schema, c.relname::text as table, a.attname::text as column,
      format_type(a.atttypid, null) as type
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
    where a.attnum > 0 and not a.attisdropped and c.relname = any (${[outbox, dead]}::text[])
      and n.nspname = coalesce(${schema}, (
        select s.nspname from pg_class o join pg_namespace s on s.oid = o.relnamespace
        where o.oid = to_regclass(quote_ident(${outbox}))))`;
}

/** Returns whether the session has the lock of the table; it ends with the session. */
export async function lockTable(sql: Queryable, schema: string, outbox: string): Promise<boolean> {
  await sql`select set_config('search_path', quote_ident(${schema}), false)`;
  const [row] = await sql<{ isAcquired: boolean }[]>`
    select pg_try_advisory_lock(${LOCK}, to_regclass(quote_ident(${outbox}))::oid::int) as "isAcquired"`;
  return row?.isAcquired === true;
}

/** The length of a text is read without the text, so only the rows of the round are. */
export function readRows(
  sql: Queryable,
  outbox: string,
  { limit, exceptStores }: { limit: number; exceptStores: readonly string[] },
): Promise<OutboxRow[]> {
  return sql<OutboxRow[]>`
    select id::text as id, coalesce(store_id::text, '') as "storeId", coalesce(event::text, '') as event, resource,
      case when date_attempted is null then 'no'
        when date_attempted < now() - make_interval(hours => ${KEY_HOURS}) then 'expired' else 'maybe' end as sent
    from (
      select id, store_id, event, resource, date_attempted, sum(octet_length(resource)) over (order by id) as bytes
      from (
        select id, store_id, event, date_attempted,
          case when octet_length(resource::text) <= ${RESOURCE_BYTES} then resource::text end as resource
        from ${sql(outbox)} where coalesce(store_id::text, '') <> all (${exceptStores}::text[])
        order by ${sql(outbox)}.id limit ${limit}
      ) as first_rows
    ) as summed
    where coalesce(bytes, 0) <= ${ROUND_BYTES} order by summed.id`;
}

export async function markRows(sql: Queryable, outbox: string, ids: readonly string[]): Promise<void> {
  await sql`update ${sql(outbox)} set date_attempted = now() where id = any (${ids}::bigint[])`;
}

export async function settleRows(
  sql: Queryable,
  outbox: string,
  dead: string,
  { published, refused, unsent }: Settled,
): Promise<void> {
  await sql`
    with published as (delete from ${sql(outbox)} where id = any (${published}::bigint[])),
      unsent as (update ${sql(outbox)} set date_attempted = null where id = any (${unsent}::bigint[])),
      refused as (
        delete from ${sql(outbox)} as o
        using unnest(${refused.map(({ id }) => id)}::bigint[], ${refused.map(({ reason }) => reason)}::text[]) as r (id, reason)
        where o.id = r.id returning o.id, o.store_id, o.event, o.resource, r.reason)
    insert into ${sql(dead)} (id, store_id, event, resource, reason, date_refused)
    select id, store_id, event, resource, reason, now() from refused order by id`;
}

export function readLag(sql: Queryable, outbox: string): Promise<Lag[]> {
  return sql<Lag[]>`
    select count(*)::int as rows, coalesce(extract(epoch from now() - min(date_created)), 0)::float8 as "oldestSeconds"
    from (select date_created from ${sql(outbox)} order by id limit ${WAITING_ROWS_MAX}) as first_rows`;
}

/** The time limit of a session that does not end by itself. */
const CLOSE_SECONDS = 1;

/** Connects, checks the tables, and takes the lock; returns undefined if another relay has it. */
export async function openPostgres(url: string, table: Table): Promise<Source | undefined> {
  const { outbox, dead } = table;
  const address = { kind: 'url', url } as const;
  const pool = openPool(address, { connections: 1, applicationName: 'halcyon-relay', silenceMs: SILENCE_MS });
  let session: Awaited<ReturnType<typeof pool.reserve>> | undefined;
  /** Waits for the end of the session, so that the next relay gets the lock. */
  const close = (): Promise<void> => {
    session?.release();
    return pool.end({ timeout: CLOSE_SECONDS });
  };
  try {
    // One session for everything: the lock ends with it.
    const sql = await pool.reserve();
    session = sql;
    const { database } = await oneOf(beginSession(sql));
    const columns = await readColumns(sql, table.schema ?? null, outbox, dead);
    checkTables(columns, table, 'postgres');
    const [{ schema } = { schema: '' }] = columns;
    if (!(await lockTable(sql, schema, outbox))) {
      await close();
      return undefined;
    }
    return {
      name: `${database}.${schema}.${outbox}`,
      read: (limit, exceptStores) => readRows(sql, outbox, { limit, exceptStores }),
      mark: (ids) => markRows(sql, outbox, ids),
      settle: (settled) => settleRows(sql, outbox, dead, settled),
      lag: () => oneOf(readLag(sql, outbox)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
