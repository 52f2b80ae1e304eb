/** Checks of the database server: it responds, and its settings do not risk accepted events. */
import { checkServer, type Sql } from '#db/pool.ts';
import {
  checkDatabaseText,
  checkPooled,
  findCollationChange,
  remedyOfCollations,
  type CollationChange,
} from '#db/usable.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { withTimeouts, readDatabaseId, readServer, readSession, type Server } from '../doctor-sql.ts';

/** The maximum of connections of a process outside its pool: heartbeat, LISTEN, and work under a lock. */
const EXTRA_CONNECTIONS = 5;
const WORK_MEM_MIN_KB = 1_024;
const WORK_MEM_MAX_KB = 512 * 1_024;

const set = (name: string, value: string): string =>
  `In psql: alter system set ${name} = ${value}; select pg_reload_conf()`;

function settingsOf(server: Server): Finding[] {
  const found: Finding[] = [];
  if (server.fsync !== 'on')
    found.push(fail('database', 'fsync is off: a crash of the machine destroys the database', set('fsync', 'on')));
  if (server.fullPageWrites !== 'on') {
    const message = 'full_page_writes is off: a crash may tear pages, unless the file system prevents that';
    found.push(warn('database', message, set('full_page_writes', 'on')));
  }
  if (server.synchronousCommit === 'off') {
    const message = 'synchronous_commit is off: a crash loses events that were accepted';
    found.push(fail('database', message, set('synchronous_commit', 'on')));
  }
  if (server.autovacuum !== 'on') {
    const message = 'autovacuum is off: deleted rows are not removed, which slows everything down';
    found.push(fail('database', message, set('autovacuum', 'on')));
  }
  if (server.workMemKb < WORK_MEM_MIN_KB || server.workMemKb > WORK_MEM_MAX_KB) {
    const message = `work_mem is ${server.workMemKb} kB, the memory limit of each sort of each connection`;
    found.push(warn('database', message, `${set('work_mem', "'4MB'")}; use 1 MB to 512 MB`));
  }
  return found;
}

function ofCollations(change: CollationChange): Finding {
  const { recorded, actual } = change;
  const message = `the collations have version ${actual}, but the indexes were built with ${recorded}: they may be wrong`;
  return warn('database', message, remedyOfCollations(change));
}

function checkConnections(server: Server, connections: number): Finding {
  const needed = connections + EXTRA_CONNECTIONS;
  const free = server.connectionsMax - server.connections;
  const usage = `${server.connections} of ${server.connectionsMax} connections are used`;
  const advice =
    'Raise max_connections, lower DATABASE_CONNECTIONS (processes × (DATABASE_CONNECTIONS + 5) must fit), or use PgBouncer';
  if (needed > server.connectionsMax)
    return fail('connections', `${usage}; one process may need ${needed}, more than the limit`, advice);
  if (free < needed)
    return warn('connections', `${usage}; one more process may need ${needed}, which are not free`, advice);
  return ok('connections', `${usage}; one more process may need ${needed}`);
}

/** Checks the server; throws a `DatabaseError` if it does not respond. */
export async function checkDatabase({ sql, direct, config }: DoctorContext): Promise<Finding[]> {
  await checkServer(direct);
  if (sql !== direct) {
    await checkServer(sql);
    await checkPooled(sql);
  }
  await checkDatabaseText(direct);
  const server = await withTimeouts(direct, readServer);
  if (server === undefined) return [];
  if (server.isStandby) {
    const advice = 'Point DATABASE_URL to the primary, for example by host=one,two with target_session_attrs=primary';
    return [fail('database', 'the server is a read-only standby', advice)];
  }
  if (server.readOnly === 'on') {
    const message = 'default_transaction_read_only is on: every write is refused';
    const advice =
      'Free disk space if the provider set it for that; then reset it for the server, the database and the role';
    return [fail('database', message, advice)];
  }
  const change = await findCollationChange(direct);
  const problems = [...settingsOf(server), ...(change === undefined ? [] : [ofCollations(change)])];
  const message = `PostgreSQL ${server.version}, with durable settings`;
  return [
    ...(problems.length === 0 ? [ok('database', message)] : problems),
    checkConnections(server, config.database.connections),
  ];
}

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

/** Checks for a pooler: session locks, LISTEN and migrations need a dedicated session. */
export async function checkSessions({ sql, direct, config }: DoctorContext): Promise<Finding[]> {
  const name = config.database.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
  if (await isPooled(direct)) {
    const message = `${name} points to a pooler in transaction mode`;
    return [fail('sessions', message, 'Set DATABASE_DIRECT_URL to PostgreSQL itself: docs/operating.md, "PgBouncer"')];
  }
  if (sql !== direct) {
    const [pooledId, directId] = [await withTimeouts(sql, readDatabaseId), await withTimeouts(direct, readDatabaseId)];
    if (pooledId !== directId) {
      const message = 'DATABASE_URL and DATABASE_DIRECT_URL point to different databases';
      return [fail('sessions', message, 'Point both to the same database of the same primary')];
    }
  }
  const source = config.database.url === undefined ? 'the connection' : name;
  return [ok('sessions', `${source} leads to PostgreSQL without a pooler`)];
}
