/** The checks of the server of a database, which need no tables: it can be used, keeps what it accepts, and has connections. */
import type { Sql } from '#db/pool.ts';
import { checkDatabaseText, checkPooled, checkServer, findCollationChange, remedyOfCollations } from '#db/usable.ts';
import { OTHER_CONNECTIONS } from '../installation.ts';
import { fail, ok, orOk, warn, type Check, type Database, type Verdict } from './check.ts';
import { readServer, readSession, withTimeouts, type Server } from './doctor-sql.ts';

/** What is lost or slow while a setting is off. */
const SWITCHES = {
  fsync: { state: 'fail', effect: 'a crash of the machine destroys the database' },
  full_page_writes: { state: 'warn', effect: 'a crash may tear pages, unless the file system prevents that' },
  synchronous_commit: { state: 'fail', effect: 'a crash loses events that were accepted' },
  autovacuum: { state: 'fail', effect: 'deleted rows are not removed, which slows everything down' },
} as const;
const WORK_MEM_KB = { min: 1_024, max: 512 * 1_024 };

const set = (name: string, value: string): string =>
  `In psql: alter system set ${name} = ${value}; select pg_reload_conf()`;

/** Reads the server of a connection. */
export function inspectServer(sql: Sql): Promise<Server> {
  return withTimeouts(sql, (tx) => readServer(tx, Object.keys(SWITCHES)));
}

/** Checks that the server can be used; throws a `DatabaseError` if it cannot. */
const USABLE: Check<Database> = {
  name: 'database',
  isRequired: true,
  run: async ({ sql, direct }) => {
    await checkServer(direct);
    if (sql !== direct) {
      await checkServer(sql);
      await checkPooled(sql);
    }
    await checkDatabaseText(direct);
    const { isStandby, isReadOnly } = await inspectServer(direct);
    const primary = 'Point DATABASE_URL to the primary, for example by host=one,two with target_session_attrs=primary';
    if (isStandby) return [fail('the server is a read-only standby', primary)];
    const advice =
      'Free disk space if the provider set it for that; then reset it for the server, the database and the role';
    return isReadOnly ? [fail('default_transaction_read_only is on: every write is refused', advice)] : [];
  },
};

const DURABLE: Check<Database> = {
  name: 'database',
  run: async ({ direct }) => {
    const { off, version, workMemKb } = await inspectServer(direct);
    const change = await findCollationChange(direct);
    const found = Object.entries(SWITCHES)
      .filter(([name]) => off.includes(name))
      .map(([name, { state, effect }]): Verdict => {
        return { state, message: `${name} is off: ${effect}`, advice: set(name, 'on') };
      });
    if (workMemKb < WORK_MEM_KB.min || workMemKb > WORK_MEM_KB.max) {
      const message = `work_mem is ${workMemKb} kB, the memory limit of each sort of each connection`;
      found.push(warn(message, `${set('work_mem', "'4MB'")}; use 1 MB to 512 MB`));
    }
    if (change !== undefined) {
      const message = `the collations have version ${change.actual}, but the indexes were built with ${change.recorded}: they may be wrong`;
      found.push(warn(message, remedyOfCollations(change)));
    }
    return orOk(found, `PostgreSQL ${version}, with durable settings`);
  },
};

const CONNECTIONS: Check<Database> = {
  name: 'connections',
  run: async ({ direct, config }) => {
    const { connections, connectionsMax } = await inspectServer(direct);
    const needed = config.database.connections + OTHER_CONNECTIONS;
    const used = `${connections} of ${connectionsMax} connections are used`;
    const sum = `processes × (DATABASE_CONNECTIONS + ${OTHER_CONNECTIONS})`;
    const advice = `Raise max_connections, lower DATABASE_CONNECTIONS (${sum} must fit), or use PgBouncer`;
    if (needed > connectionsMax) return [fail(`${used}; one process may need ${needed}, more than the limit`, advice)];
    const message = `${used}; one more process may need ${needed}`;
    if (needed <= connectionsMax - connections) return [ok(message)];
    return [warn(`${message}, which are not free`, advice)];
  },
};

/** The checks of every database that the other checks need. */
export const SERVER_CHECKS: readonly Check<Database>[] = [USABLE, DURABLE, CONNECTIONS];

/** A pooler may assign different sessions while others are in use, so one try is not enough. */
const TRIES = 5;

/** Returns whether two open connections share a server session, as with PgBouncer in transaction mode. */
async function isPooled(sql: Sql): Promise<boolean> {
  const first = await sql.reserve();
  try {
    const second = await sql.reserve();
    try {
      for (let tries = 0; tries < TRIES; tries += 1)
        if ((await readSession(first)) === (await readSession(second))) return true;
      return false;
    } finally {
      second.release();
    }
  } finally {
    first.release();
  }
}

/** Session locks, LISTEN and migrations need a dedicated session. Concurrent statements could get the shared session that this detects. */
export const SESSIONS: Check<Database> = {
  name: 'sessions',
  run: async ({ sql, direct, config: { database } }) => {
    const name = database.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
    const advice = 'Set DATABASE_DIRECT_URL to PostgreSQL itself: docs/operating.md, "PgBouncer"';
    if (await isPooled(direct)) return [fail(`${name} points to a pooler in transaction mode`, advice)];
    if (sql !== direct && (await inspectServer(sql)).databaseId !== (await inspectServer(direct)).databaseId) {
      const message = 'DATABASE_URL and DATABASE_DIRECT_URL point to different databases';
      return [fail(message, 'Point both to the same database of the same primary')];
    }
    return [ok(`${database.url === undefined ? 'the connection' : name} leads to PostgreSQL without a pooler`)];
  },
};
