/** An outbox table in MySQL 8 or MariaDB, with its statements. Values are in texts, because prepared statements have no lists. */
import { createHash } from 'node:crypto';
import { createConnection, type RowDataPacket } from 'mysql2/promise';
import { UsageError, UserError } from '../explain.ts';
import {
  checkTables,
  KEY_HOURS,
  RESOURCE_BYTES,
  ROUND_BYTES,
  SILENCE_MS,
  WAITING_ROWS_MAX,
  type OutboxRow,
  type Source,
  type Table,
} from './relay-source.ts';

const CONNECT_MS = 10_000;
const CLOSE_MS = 1_000;

const quoted = (name: string): string => `\`${name}\``;

/** Returns the definition of both tables. MySQL's type `json` would write `12.50` as `12.5`. */
export function mysqlTables({ schema, outbox, dead }: Table): string {
  const prefix = schema === undefined ? '' : `${quoted(schema)}.`;
  return `create table ${prefix}${quoted(outbox)} (
  id bigint auto_increment primary key,
  store_id bigint not null,
  event varchar(255) not null,
  resource longtext not null,
  date_created timestamp(6) not null default current_timestamp(6),
  date_attempted timestamp(6) null
) engine = InnoDB default charset = utf8mb4;
create table ${prefix}${quoted(dead)} (
  dead_id bigint auto_increment primary key,
  id bigint not null,
  store_id bigint,
  event varchar(255),
  resource longtext,
  reason text not null,
  date_refused timestamp(6) not null default current_timestamp(6)
) engine = InnoDB default charset = utf8mb4;`;
}

type Value = string | number | readonly string[];
/** Executes a statement; `?` stands for a value, and for the values of an array. */
type Run = <Row = object>(statement: string, values?: readonly Value[]) => Promise<(Row & RowDataPacket)[]>;

/**
 * Settings on which the statements depend: the mode decides how values are written, the zone what a timestamp is. The server ends the
 * session, and with it the lock, of a machine that vanished after `wait_timeout` seconds.
 */
async function beginSession(run: Run): Promise<{ version: string; database: string | null }> {
  await run(`set session autocommit = 1, sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00', wait_timeout = 600`);
  const [row] = await run<{ version: string; database: string | null }>(
    'select version() as `version`, database() as `database`',
  );
  if (row === undefined) throw new TypeError('A select without a table has one row');
  return row;
}

const readColumns = (run: Run, schema: string, { outbox, dead }: Table) =>
  run<{ table: string; column: string; type: string }>(
    `select table_name as \`table\`, column_name as \`column\`, data_type as \`type\`
    from information_schema.columns where table_schema = ? and table_name in (?)`,
    [schema, [outbox, dead]],
  );

/** Returns whether the session has the lock, whose name has at most 64 characters; it ends with the session. */
async function lockTable(run: Run, name: string): Promise<boolean> {
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 32);
  const [row] = await run<{ acquired: unknown }>('select get_lock(?, 0) as acquired', [`halcyon-relay-${digest}`]);
  return Number(row?.acquired) === 1;
}

/** Returns ids as SQL. MySQL may compare texts with numbers as floating-point numbers, which are inexact from 2^53 on. */
function listOf(ids: readonly string[]): string {
  if (ids.every((id) => /^-?\d+$/.test(id))) return ids.join(', ');
  throw new TypeError('An id is a whole number');
}

/** Returns the statements of the tables. */
const statementsOf = (run: Run, outbox: string, dead: string): Pick<Source, 'read' | 'mark' | 'settle' | 'lag'> => ({
  // The sum is over ids and lengths, because the table of intermediate results would have whole texts. An empty list is no SQL.
  read: (limit, exceptStores) =>
    run<OutboxRow>(
      `select cast(o.id as char) as id, coalesce(cast(store_id as char), '') as storeId, coalesce(event, '') as event,
        case when octet_length(resource) <= ? then cast(resource as char) end as resource,
        case when date_attempted is null then 'no'
          when date_attempted < now() - interval ? hour then 'expired' else 'maybe' end as sent
      from (
        select id, sum(case when bytes <= ? then bytes else 0 end) over (order by id) as bytes
        from (
          select id, octet_length(resource) as bytes from ${outbox}
          where ${exceptStores.length === 0 ? '? = 0' : "coalesce(cast(store_id as char), '') not in (?)"}
          order by id limit ?
        ) as first_rows
      ) as summed join ${outbox} o on o.id = summed.id
      where summed.bytes <= ? order by o.id`,
      [RESOURCE_BYTES, KEY_HOURS, RESOURCE_BYTES, exceptStores.length === 0 ? 0 : exceptStores, limit, ROUND_BYTES],
    ),
  mark: async (ids) => void (await run(`update ${outbox} set date_attempted = now(6) where id in (${listOf(ids)})`)),
  // The transaction ends with the connection if a statement fails.
  settle: async ({ published, refused, unsent }) => {
    await run('start transaction');
    for (const { id, reason } of refused)
      await run(
        `insert into ${dead} (id, store_id, event, resource, reason, date_refused)
        select id, store_id, event, resource, ?, now(6) from ${outbox} where id = ${listOf([id])}`,
        [reason],
      );
    const ended = [...published, ...refused.map(({ id }) => id)];
    if (ended.length > 0) await run(`delete from ${outbox} where id in (${listOf(ended)})`);
    if (unsent.length > 0) await run(`update ${outbox} set date_attempted = null where id in (${listOf(unsent)})`);
    await run('commit');
  },
  lag: async () => {
    const [lag] = await run<{ waiting: unknown; seconds: unknown }>(
      `select count(*) as waiting, coalesce(timestampdiff(microsecond, min(date_created), now(6)), 0) / 1000000 as seconds
      from (select date_created from ${outbox} order by id limit ?) as first_rows`,
      [WAITING_ROWS_MAX],
    );
    return { rows: Number(lag?.waiting), oldestSeconds: Number(lag?.seconds) };
  },
});

/** Connects, checks the tables, and takes the lock; returns undefined if another relay has it. */
export async function openMysql(url: string, table: Table): Promise<Source | undefined> {
  const { outbox, dead } = table;
  const connection = await createConnection({ uri: url, charset: 'utf8mb4', connectTimeout: CONNECT_MS });
  // The statement that fails reports the loss.
  connection.on('error', () => {});
  const close = async () => {
    // The server ends the session later, and the next relay needs the lock.
    await connection.query({ sql: 'do release_all_locks()', timeout: CLOSE_MS }).catch(() => {});
    connection.destroy();
  };
  const run: Run = async <Row>(sql: string, values: readonly Value[] = []) => {
    try {
      const [rows] = await connection.query<(Row & RowDataPacket)[]>({ sql, timeout: SILENCE_MS }, [...values]);
      return rows;
    } catch (error) {
      // The driver has no code for a statement on a connection that was lost before.
      if (!(error instanceof TypeError) && (error as { code?: unknown }).code === undefined)
        Object.assign(error as Error, { code: 'PROTOCOL_CONNECTION_LOST' });
      throw error;
    }
  };
  try {
    const { version, database } = await beginSession(run);
    // InnoDB of MySQL 5.7 forgets at a restart which ids it has given.
    if (version.startsWith('5.')) throw new UserError(`MySQL ${version} gives ids twice: use MySQL 8, or MariaDB`);
    const schema = table.schema ?? database;
    if (schema === null) throw new UsageError('Name the database: mysql://shop@db.example.com/<database>');
    checkTables(await readColumns(run, schema, table), table, 'mysql');
    await run(`use ${quoted(schema)}`);
    const name = `${schema}.${outbox}`;
    if (!(await lockTable(run, name))) {
      await close();
      return undefined;
    }
    return { name, ...statementsOf(run, quoted(outbox), quoted(dead)), close };
  } catch (error) {
    await close();
    throw error;
  }
}
