/** Connection pools and transactions, and LISTEN on a connection of its own. */
import {
  Connection,
  ConnectionError,
  PostgresError,
  isStale,
  type ConnectionSettings,
  Connections,
  type PoolUse,
} from './connection.ts';
import { createReads } from './batch.ts';
import { endpointsOf, serversAt, sessionOf, type DatabaseAddress } from './servers.ts';
import { createTag, type Command, type Queryable, type Rows } from './statement.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { untilStopped, type Running, type Pace } from '#core/lifecycle.ts';

export { DatabaseError, type DatabaseAddress } from './servers.ts';
export { firstOf, hasRows, oneOf, totalOf, type Fragment, type Queryable } from './statement.ts';

/** A transaction. Its statements are executed in the order in which they are awaited, without waiting for each other. */
export type Tx = Queryable;

/** A connection that nothing else uses. */
interface Reserved extends Queryable, Disposable {
  release(): void;
}

const POOL = Symbol('pool');

/** A pool of connections. Its disposal ends it within a second. */
export interface Sql extends Queryable, AsyncDisposable {
  /** Runs `body` in a transaction; rejects if one of its statements failed, even if `body` ignores that. */
  begin<T>(body: (tx: Tx) => T | Promise<T>): Promise<T>;
  begin<T>(mode: string, body: (tx: Tx) => T | Promise<T>): Promise<T>;
  reserve(): Promise<Reserved>;
  /** Waits for all statements and closes the connections; after `timeout` seconds aborts statements and connections. */
  end(options?: { timeout: number }): Promise<void>;
  /**
   * For reads that take no longer than a look-up by index and wait for no lock: those of one tick share a connection, and the
   * later ones wait for the earlier.
   */
  readonly reads: Queryable;
  readonly [POOL]: Connections;
}

const CONNECT_MS = 10_000;
/**
 * Returns a pool that connects on first use. int8 is read as a number, timestamptz as a `Date`, both also inside arrays.
 * `isShared`: a pooler assigns a session per transaction (PgBouncer), so statements are not prepared.
 * `silenceMs`: a connection without a response for this long while a statement waits is closed, and the statement is cancelled and rejects
 * with an error for which `isUnavailable` returns true. It may have been executed. The next statement opens another connection.
 * `onQuery` counts statements for the benches. `onRefused`: the server refuses further connections; statements wait for the open ones.
 */
export function openPool(
  address: DatabaseAddress,
  options: {
    connections: number;
    applicationName: string;
    isShared?: boolean;
    silenceMs?: number;
    onQuery?: (statement: string) => void;
    onRefused?: (error: Error) => void;
  },
): Sql {
  const { connections, applicationName, isShared = false, silenceMs, onQuery, onRefused } = options;
  const servers = serversAt(address);
  const { application_name = applicationName, ...parameters } = servers.parameters;
  const { options: text, setUp } = sessionOf(parameters, isShared);
  return createPool(connections, {
    ...servers,
    session: { application_name, ...(text !== '' && { options: text }) },
    connectMs: CONNECT_MS,
    setUp,
    isShared,
    silenceMs,
    onQuery,
    onRefused,
  });
}

/** Executes a statement on any connection. */
async function execute(pool: Connections, command: Command): Promise<Rows<readonly unknown[]>> {
  for (;;) {
    try {
      return await pool.run((connection) => connection.query(command));
    } catch (error) {
      if (!isStale(error)) throw error;
    }
  }
}

function createPool(limit: number, settings: ConnectionSettings, onClosed?: () => void): Sql {
  const pool = new Connections(limit, settings, onClosed);
  const tag = createTag(async (command) => execute(pool, command()));
  const begin = <T>(...args: [...string[], Body<T>]): Promise<T> => {
    const body = args.pop() as Body<T>;
    return pool.run((connection) => inTransaction(connection, `begin ${String(args[0] ?? '')}`, body));
  };
  const reserve = async (): Promise<Reserved> => {
    const connection = await pool.acquire();
    let isReleased = false;
    const reserved = createTag(async (command) => {
      if (isReleased) throw new EndedError('the connection was released');
      return connection.query(command());
    });
    const release = (): void => {
      if (isReleased) return;
      isReleased = true;
      pool.release(connection);
    };
    return Object.assign(reserved, { release, [Symbol.dispose]: release });
  };
  const end = (options?: { timeout: number }) => pool.end(options && options.timeout * 1_000);
  const reads = createReads(pool, (command) => execute(pool, command));
  const dispose = (): Promise<void> => end({ timeout: 1 });
  return Object.assign(tag, { begin, reserve, end, reads, [POOL]: pool, [Symbol.asyncDispose]: dispose });
}

/** A statement was sent after its transaction or the reservation of its connection ended; another caller has the connection. */
class EndedError extends ConnectionError {
  constructor(message: string) {
    super('CONNECTION_CLOSED', message);
  }
}

type Body<T> = (tx: Tx) => T | Promise<T>;

/** What each transaction calls when it has been committed. */
const committing = new WeakMap<Queryable, (() => void)[]>();

/** Calls `run` when the transaction has been committed, before its caller continues. `run` must not throw. Throws outside of a transaction. */
export function afterCommit(tx: Queryable, run: () => void): void {
  const runs = committing.get(tx);
  if (runs === undefined) throw new TypeError('afterCommit needs a transaction of begin()');
  runs.push(run);
}

/** SQLSTATE in_failed_sql_transaction, which does not say why. */
const FAILED_TRANSACTION = '25P02';

/**
 * Runs `body` in a transaction. Rejects with the first error of its statements, even if `body` ignores that, and as soon as the connection
 * is lost, even if `body` continues.
 */
async function inTransaction<T>(connection: Connection, begin: string, body: Body<T>): Promise<T> {
  const { onLost } = connection;
  let isOver = false;
  let failure: unknown;
  const tx = createTag((command) => {
    const run = async () => {
      if (isOver) throw new EndedError('the transaction has ended');
      return connection.query(command());
    };
    const rows = run();
    // Nothing may wait for the statement.
    rows.catch((error: unknown) => (failure ??= error));
    return rows;
  });
  const runs: (() => void)[] = [];
  committing.set(tx, runs);
  const runBody = async (): Promise<T> => body(tx);
  try {
    await connection.query({ text: begin });
    const value = await new Promise<T>((resolve, reject) => {
      connection.onLost = (error) => {
        onLost(error);
        reject(error);
      };
      void runBody().then(resolve, reject);
    });
    isOver = true;
    if (failure !== undefined) throw failure;
    await connection.query({ text: 'commit' });
    for (const run of runs) run();
    return value;
  } catch (error) {
    isOver = true;
    await connection.query({ text: 'rollback' }).catch((cause: Error) => connection.destroy(cause));
    throw error instanceof PostgresError && error.code === FAILED_TRANSACTION ? (failure ?? error) : error;
  } finally {
    connection.onLost = onLost;
  }
}

/**
 * Returns a pool of one connection to the server of `sql`, for statements that must not wait for a pool: a worker whose heartbeat is late
 * loses its shards. `silenceMs`: as in `openPool`, and also the limit of connecting to all servers together. `onClosed` is called when the
 * connection is lost or replaced.
 */
export function openDedicated(sql: Sql, silenceMs: number, onClosed?: () => void): Sql {
  const { settings } = sql[POOL];
  const connectMs = Math.min(CONNECT_MS, Math.floor(silenceMs / settings.servers.length));
  return createPool(1, { ...settings, silenceMs, connectMs }, onClosed);
}

/** Returns the hosts and ports that a pool connects to; none for a Unix socket. */
export function serversOf(sql: Sql): { host: string; port: number }[] {
  return endpointsOf(sql[POOL].settings);
}

/**
 * Rejects statements at once with an error for which `isUnavailable` returns true, until `resume`. Dedicated connections are not
 * suspended.
 */
export function suspend(sql: Sql, reason: string): void {
  sql[POOL].suspend(reason);
}

export function resume(sql: Sql): void {
  sql[POOL].resume();
}

/** Returns the current use of a pool. */
export function useOf(sql: Sql): PoolUse {
  return sql[POOL].use;
}

/** Runs `fn` in a transaction: commits when it resolves, rolls back when it rejects, and passes on its value or error. */
export function transaction<T>(
  sql: Sql,
  fn: (tx: Tx) => Promise<T>,
  mode: 'read write' | 'read only' = 'read write',
): Promise<T> {
  return sql.begin(mode, fn);
}

/**
 * Limits, until the transaction ends, how long a statement waits for a lock and how long the server waits for the client. A
 * process that vanishes or is frozen must not keep a shard from its next owner.
 */
export async function limitWaits(tx: Queryable, limitMs: number): Promise<void> {
  await tx`
    select set_config('lock_timeout', ${String(limitMs)}, true),
      set_config('idle_in_transaction_session_timeout', ${String(limitMs)}, true)`;
}

/** The channel that every listening process subscribes to. */
const WORKING_CHANNEL = 'halcyon_working';

/** Announces that there is work, so that no process that listens is quiet; in a transaction, when it commits. */
export async function announceWorking(sql: Queryable): Promise<void> {
  await sql`select pg_notify(${WORKING_CHANNEL}, '')`;
}

/** More often than a process becomes quiet. */
const ANNOUNCE_EVERY_MS = 20_000;

/**
 * Announces at the end of a quiet time that this process has work, and then regularly while it has. Otherwise others would become quiet, and
 * would not find by polling what they were not notified of; and this worker would take their shards.
 */
export function announceWhileWorking(sql: Sql, pace: Pace, everyMs = ANNOUNCE_EVERY_MS): Running {
  let announcedMs = Number.NEGATIVE_INFINITY;
  const announce = async (): Promise<void> => {
    if (pace.worksAtMs <= announcedMs) return;
    announcedMs = pace.worksAtMs;
    // While the database is not available, no other process has work either.
    await announceWorking(sql).catch(() => {});
  };
  pace.refreshBy(announce);
  return untilStopped((signal) => pace.repeat(everyMs, announce, signal));
}

/** Statements per `silenceMs` on an idle connection; one that does not respond to them is lost. */
const CHECKS = 4;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 2_000;

/**
 * LISTEN on a connection of its own: calls the handler of a channel with each payload. Notifications during an interruption are lost, so
 * `onMissed` is called after each reconnect. Rejects if the first connection cannot be opened.
 *
 * A connection that does not respond for `silenceMs` is replaced: the kernel takes a quarter of an hour to give up a peer that
 * vanished. While the process is quiet, the kernel's own probes (keep-alive) check the connection.
 */
export async function listen(
  sql: Sql,
  channels: Readonly<Record<string, (payload: string) => void>>,
  { onMissed, silenceMs, pace }: { onMissed: () => void; silenceMs: number; pace: Pace },
): Promise<Running> {
  const stopped = new AbortController();
  const open = async (): Promise<Connection> => {
    const opened = await Connection.open({ ...sql[POOL].settings, silenceMs }, stopped.signal);
    opened.client.on('notification', ({ channel, payload = '' }) => {
      pace.othersWork();
      channels[channel]?.(payload);
    });
    try {
      for (const name of [WORKING_CHANNEL, ...Object.keys(channels)])
        await opened.query({ text: `listen ${sql(name).text}` });
      stopped.signal.throwIfAborted();
    } catch (error) {
      opened.destroy(error as Error);
      throw error;
    }
    opened.onLost = () => void reopen();
    return opened;
  };

  let connection = await open();
  const reopen = async (): Promise<void> => {
    for (let retryMs = RETRY_MIN_MS; !stopped.signal.aborted; retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)) {
      try {
        connection = await open();
        void pace.work();
        onMissed();
        return;
      } catch {
        await delay(retryMs, undefined, { signal: stopped.signal }).catch(() => {});
      }
    }
  };
  const check = (): void => {
    // A statement that is sent while another waits would count as activity.
    if (connection.isIdle) connection.query({ text: 'select 1' }).catch(() => {});
  };
  void pace.repeat(silenceMs / CHECKS, check, stopped.signal);
  return {
    stop: async () => {
      stopped.abort();
      connection.destroy(new ConnectionError('CONNECTION_ENDED', 'listening has ended'));
    },
  };
}
