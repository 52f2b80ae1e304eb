/**
 * How busy a pool is. The driver (3.4.9) does not tell, so it is counted at its door: what it was asked and has not
 * answered, and who holds a connection for longer than a statement. It costs a statement three small closures.
 */
import type postgres from 'postgres';
import type { Sql, Tx } from './pool.ts';
import { isDiskFull } from './unavailable.ts';

/**
 * `busy` connections run a statement or belong to a transaction; `waiting` statements and transactions have none yet.
 * `refusedForSpace` counts those that were refused because the disk is full.
 */
export type PoolUse = { connections: number; busy: number; waiting: number; refusedForSpace: number };

/** What of the driver's statement is looked at: it goes to `handler` when it is first awaited, and is `active` while it runs. */
type Statement = {
  handler: (statement: Statement) => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  active: boolean;
};
type Many = (...args: unknown[]) => unknown;

const USE = Symbol('use');

const createTally = (connections: number) => {
  const statements = new Set<Statement>();
  let held = 0;
  let wanted = 0;
  let refusedForSpace = 0;
  const failed = (error: unknown): void => {
    if (isDiskFull(error)) refusedForSpace += 1;
  };
  /** A fragment of another statement is never handled, and so never counted. */
  const watch = (statement: Statement): void => {
    const { handler, resolve, reject } = statement;
    if (typeof handler !== 'function') return;
    statement.handler = (self) => {
      statements.add(self);
      return handler(self);
    };
    statement.resolve = (value) => {
      statements.delete(statement);
      resolve(value);
    };
    statement.reject = (error) => {
      statements.delete(statement);
      failed(error);
      reject(error);
    };
  };
  /** Counts from the wish for a connection until `end`; `begin` says that it is there. */
  const hold = () => {
    let isThere = false;
    wanted += 1;
    return {
      begin: () => {
        isThere = true;
        wanted -= 1;
        held += 1;
      },
      end: () => {
        if (isThere) held -= 1;
        else wanted -= 1;
      },
    };
  };
  const read = (): PoolUse => {
    let active = 0;
    for (const statement of statements) if (statement.active) active += 1;
    return { connections, busy: held + active, waiting: wanted + statements.size - active, refusedForSpace };
  };
  return { watch, hold, failed, read };
};

/** The pool with its use counted; transactions and reserved connections are what they are without. */
export const counted = (sql: Sql, connections: number): Sql => {
  const tally = createTally(connections);
  const begin = async (...args: unknown[]): Promise<unknown> => {
    const body = args.pop() as (tx: Tx) => unknown;
    const holding = tally.hold();
    try {
      return await (sql.begin as unknown as Many)(...args, (tx: Tx) => {
        holding.begin();
        return body(tx);
      });
    } catch (error) {
      tally.failed(error);
      throw error;
    } finally {
      holding.end();
    }
  };
  const reserve = async (): Promise<postgres.ReservedSql> => {
    const holding = tally.hold();
    try {
      const connection = await sql.reserve();
      holding.begin();
      const release = connection.release.bind(connection);
      connection.release = () => {
        holding.end();
        release();
      };
      return connection;
    } catch (error) {
      holding.end();
      throw error;
    }
  };
  const members: Readonly<Record<string | symbol, unknown>> = { begin, reserve, [USE]: tally.read };
  return new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      const made: unknown = Reflect.apply(target as unknown as Many, self, args);
      if (made instanceof Promise) tally.watch(made as unknown as Statement);
      return made;
    },
    get: (target, key, receiver) => members[key] ?? Reflect.get(target, key, receiver),
  });
};

/** How busy a pool of `openPool` is at this moment. */
export const useOf = (sql: Sql): PoolUse => {
  const read = Reflect.get(sql, USE) as (() => PoolUse) | undefined;
  return read?.() ?? { connections: 0, busy: 0, waiting: 0, refusedForSpace: 0 };
};
