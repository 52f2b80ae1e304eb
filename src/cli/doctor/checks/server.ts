/** The database server: that it answers, and that nothing is set there that would lose what was accepted. */
import { checkServer, type Sql } from '#db/pool.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly, readDatabaseId, readServer, readSession, type Server } from '../doctor-sql.ts';

/** Beside its pool a process has up to so many: the heartbeat, LISTEN, and work under a lock. */
const BESIDE = 5;
const WORK_MEM_MIN_KB = 1_024;
const WORK_MEM_MAX_KB = 512 * 1_024;

const set = (name: string, value: string): string =>
  `In psql: alter system set ${name} = ${value}; select pg_reload_conf()`;

const settingsOf = (server: Server): Finding[] => {
  const found: Finding[] = [];
  if (server.fsync !== 'on')
    found.push(fail('database', 'fsync is off: a crash of the machine destroys the database', set('fsync', 'on')));
  if (server.fullPageWrites !== 'on') {
    const message = 'full_page_writes is off: a crash may tear pages, unless the file system cannot';
    found.push(warn('database', message, set('full_page_writes', 'on')));
  }
  if (server.synchronousCommit === 'off') {
    const message = 'synchronous_commit is off: a crash loses events that were accepted';
    found.push(fail('database', message, set('synchronous_commit', 'on')));
  }
  if (server.isolation !== 'read committed') {
    const message = `default_transaction_isolation is "${server.isolation}": transactions fail that others overtake`;
    found.push(fail('database', message, set('default_transaction_isolation', "'read committed'")));
  }
  if (server.autovacuum !== 'on') {
    const message = 'autovacuum is off: what is deleted stays, and everything gets slower';
    found.push(fail('database', message, set('autovacuum', 'on')));
  }
  if (server.workMemKb < WORK_MEM_MIN_KB || server.workMemKb > WORK_MEM_MAX_KB) {
    const message = `work_mem is ${server.workMemKb} kB: each sort of each connection may take so much`;
    found.push(warn('database', message, `${set('work_mem', "'4MB'")}; 1 MB to 512 MB is sane`));
  }
  if (server.encoding !== 'UTF8') {
    const message = `the database is in ${server.encoding}, and what is published may be in any script`;
    found.push(fail('database', message, "Make a database with encoding 'UTF8', and restore a dump into it"));
  }
  return found;
};

const roomOf = (server: Server, connections: number): Finding => {
  const needed = connections + BESIDE;
  const free = server.connectionsMax - server.connections;
  const told = `${server.connections} of ${server.connectionsMax} connections are taken`;
  const advice =
    'Raise max_connections, lower DATABASE_CONNECTIONS (processes × (DATABASE_CONNECTIONS + 5) have to fit), or put PgBouncer between';
  if (needed > server.connectionsMax)
    return fail('connections', `${told}; one process may take ${needed}, more than there can be`, advice);
  if (free < needed)
    return warn('connections', `${told}; one more process may take ${needed}, and would not get them`, advice);
  return ok('connections', `${told}; one more process may take ${needed}`);
};

/** Throws a `DatabaseError` where nobody answers; then nothing else can be asked. */
export const checkDatabase = async ({ sql, direct, config }: DoctorContext): Promise<Finding[]> => {
  await checkServer(direct);
  if (sql !== direct) await checkServer(sql);
  const server = await briefly(direct, readServer);
  if (server === undefined) return [];
  if (server.isStandby) {
    const advice = 'Let DATABASE_URL lead to the primary: host=one,two with target_session_attrs=primary does';
    return [fail('database', 'the server is a standby, on which nothing can be written', advice)];
  }
  const bad = settingsOf(server);
  const good = `PostgreSQL ${server.version}, nothing is set that loses what was accepted`;
  return [...(bad.length === 0 ? [ok('database', good)] : bad), roomOf(server, config.database.connections)];
};

/** A pooler hands one session to whoever asks next, unless it is in use: it need not be at the first try. */
const TRIES = 5;

/** Whether two connections that are both open have the same session behind them: PgBouncer in transaction mode. */
const isPooled = async (sql: Sql): Promise<boolean> => {
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
};

/** Locks that outlive a transaction, LISTEN and migrations need a session of their own. */
export const checkSessions = async ({ sql, direct, config }: DoctorContext): Promise<Finding[]> => {
  const name = config.database.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
  if (await isPooled(direct)) {
    const message = `${name} leads through a pooler that gives each transaction another session`;
    return [fail('sessions', message, 'Set DATABASE_DIRECT_URL to PostgreSQL itself: docs/operating.md, "PgBouncer"')];
  }
  if (sql !== direct) {
    const [here, there] = [await briefly(sql, readDatabaseId), await briefly(direct, readDatabaseId)];
    if (here !== there) {
      const message = 'DATABASE_URL and DATABASE_DIRECT_URL lead to different databases';
      return [fail('sessions', message, 'Let both lead to the same database of the same primary')];
    }
  }
  const told = config.database.url === undefined ? 'the way' : name;
  return [ok('sessions', `${told} leads to PostgreSQL itself`)];
};
