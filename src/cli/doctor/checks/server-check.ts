/** Checks of the database server: it responds, its settings do not risk accepted events, and its clock, locks and replication slots. */
import { checkServer, type Sql } from '#db/pool.ts';
import {
  checkDatabaseText,
  checkPooled,
  findCollationChange,
  remedyOfCollations,
  type CollationChange,
} from '#db/usable.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import { readTransactionAges } from '#db/activity.ts';
import { fail, ok, warn, type Finding, spanOf, type DoctorContext } from '../finding.ts';
import {
  withTimeouts,
  readDatabaseId,
  readServer,
  readSession,
  type Server,
  listIdleInTransaction,
  listWaitingForLocks,
} from '../doctor-sql.ts';
import { listSlots } from '../databases-sql.ts';

// Checks of replication slots: the server keeps all WAL that a slot has not confirmed, until its disk is full.

const MIB = 1024 ** 2;
const RETAINED_WARN_BYTES = 1024 * MIB;
const RETAINED_FAIL_BYTES = 16 * 1024 * MIB;

export async function checkSlots({ direct }: DoctorContext): Promise<Finding[]> {
  const slots = await withTimeouts(direct, listSlots);
  const found = slots.flatMap(({ name, isActive, isLost, retainedBytes }): Finding[] => {
    const advice = `Start its standby or subscription, or select pg_drop_replication_slot('${name}') if there is none; a slot of an ended halcyon shards move is dropped by --abort`;
    if (isLost)
      return [fail('slots', `the slot ${name} has lost WAL: its standby or subscription cannot continue`, advice)];
    const message = `the slot ${name} is ${isActive ? 'active' : 'inactive'} and retains ${Math.ceil(retainedBytes / MIB)} MiB of WAL`;
    if (retainedBytes > RETAINED_FAIL_BYTES) return [fail('slots', message, advice)];
    return !isActive || retainedBytes > RETAINED_WARN_BYTES ? [warn('slots', message, advice)] : [];
  });
  return found.length > 0 ? found : [ok('slots', `${slots.length} replication slots, none behind`)];
}

// Checks for database sessions that block others.

/** The alert threshold in docs/operating.md. */
const OLD_SECONDS = 300;
const IDLE_SECONDS = 60;
const WAITING_SECONDS = 10;

export async function checkTransactions({ direct }: DoctorContext, idleSeconds = IDLE_SECONDS): Promise<Finding[]> {
  const [ages, idle] = await withTimeouts(
    direct,
    async (tx) => [await readTransactionAges(tx), await listIdleInTransaction(tx, idleSeconds)] as const,
  );
  const found = idle.map(({ pid, name, seconds }) =>
    warn(
      'transactions',
      `"${name}" (${pid}) has been idle in a transaction for ${spanOf(seconds)}`,
      `End it in that program, or: select pg_terminate_backend(${pid}). It prevents the removal of deleted rows`,
    ),
  );
  const message = `the oldest has been open for ${spanOf(ages.oldestSeconds)}`;
  if (ages.oldestSeconds > OLD_SECONDS) {
    const advice =
      'It prevents the removal of deleted rows, which slows everything down: find its session in pg_stat_activity';
    found.push(warn('transactions', message, advice));
  }
  return found.length > 0 ? found : [ok('transactions', message)];
}

export async function checkLocks({ direct }: DoctorContext, waitingSeconds = WAITING_SECONDS): Promise<Finding[]> {
  const waiting = await withTimeouts(direct, (tx) => listWaitingForLocks(tx, waitingSeconds));
  if (waiting.length === 0) return [ok('locks', `no session has waited for longer than ${spanOf(waitingSeconds)}`)];
  return waiting.map(({ pid, name, seconds, blockers }) =>
    warn(
      'locks',
      `"${name}" (${pid}) has waited for ${spanOf(seconds)} for a lock that ${blockers.join(', ') || 'a prepared transaction'} holds`,
      blockers.length > 0
        ? `If that session hangs: select pg_terminate_backend(${blockers[0]})`
        : 'Check pg_prepared_xacts, and roll back abandoned transactions',
    ),
  );
}

// Compares the clock of this machine with that of the database.

/** The measurement includes half of the round trip. */
const WARN_SECONDS = 2;
/** Receivers reject signatures older than five minutes, and days are wrong near midnight. */
const FAIL_SECONDS = 60;

export async function checkClocks({ direct, clock }: DoctorContext): Promise<Finding[]> {
  const before = clock.now().getTime();
  const databaseTime = await withTimeouts(direct, readDatabaseTime);
  const localMs = (before + clock.now().getTime()) / 2;
  const seconds = Math.abs(databaseTime.getTime() - localMs) / 1_000;
  const message = `the clocks of this machine and the database are ${seconds.toFixed(1)} s apart`;
  const advice = 'Synchronise both by NTP (timedatectl set-ntp true)';
  if (seconds > FAIL_SECONDS) return [fail('clocks', message, advice)];
  return [seconds > WARN_SECONDS ? warn('clocks', message, advice) : ok('clocks', message)];
}

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
