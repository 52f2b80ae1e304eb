/**
 * Counts the use of a pool, which the driver (3.4.9) does not report: unfinished statements, transactions and reserved
 * connections. It costs three small closures per statement.
 */
import type postgres from 'postgres';
import type { Sql, Tx } from './pool.ts';
import { isDiskFull } from './unavailable.ts';

/**
 * `busy`: connections that run a statement or belong to a transaction. `waiting`: statements and transactions without a
 * connection. `refusedForSpace`: those that were refused because the disk is full.
 */
export type PoolUse = { connections: number; busy: number; waiting: number; refusedForSpace: number };

/** The observed members of the driver's statement: `handler` is called when it is first awaited; `active` is set while it runs. */
type Statement = {
  handler: (statement: Statement) => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  active: boolean;
};
type Many = (...args: unknown[]) => unknown;

const USE = Symbol('use');

function createCounter(connections: number) {
  const statements = new Set<Statement>();
  let reserved = 0;
  let waiting = 0;
  let refusedForSpace = 0;
  const countFailure = (error: unknown): void => {
    if (isDiskFull(error)) refusedForSpace += 1;
  };
  /** Counts a statement. The handler of a fragment is never called, so fragments are not counted. */
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
      countFailure(error);
      reject(error);
    };
  };
  /** Counts a reserved connection from its request until `end`; `begin` marks that it is available. */
  const reserve = () => {
    let hasConnection = false;
    waiting += 1;
    return {
      begin: () => {
        hasConnection = true;
        waiting -= 1;
        reserved += 1;
      },
      end: () => {
        if (hasConnection) reserved -= 1;
        else waiting -= 1;
      },
    };
  };
  const read = (): PoolUse => {
    let active = 0;
    for (const statement of statements) if (statement.active) active += 1;
    return { connections, busy: reserved + active, waiting: waiting + statements.size - active, refusedForSpace };
  };
  return { watch, reserve, countFailure, read };
}

/** Returns the pool with its use counted; transactions and reserved connections behave as without. */
export function withUseCounted(sql: Sql, connections: number): Sql {
  const counter = createCounter(connections);
  const begin = async (...args: unknown[]): Promise<unknown> => {
    const body = args.pop() as (tx: Tx) => unknown;
    const reservation = counter.reserve();
    try {
      return await (sql.begin as unknown as Many)(...args, (tx: Tx) => {
        reservation.begin();
        return body(tx);
      });
    } catch (error) {
      counter.countFailure(error);
      throw error;
    } finally {
      reservation.end();
    }
  };
  const reserve = async (): Promise<postgres.ReservedSql> => {
    const reservation = counter.reserve();
    try {
      const connection = await sql.reserve();
      reservation.begin();
      const release = connection.release.bind(connection);
      connection.release = () => {
        reservation.end();
        release();
      };
      return connection;
    } catch (error) {
      reservation.end();
      throw error;
    }
  };
  const members: Readonly<Record<string | symbol, unknown>> = { begin, reserve, [USE]: counter.read };
  return new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      const result: unknown = Reflect.apply(target as unknown as Many, self, args);
      if (result instanceof Promise) counter.watch(result as unknown as Statement);
      return result;
    },
    get: (target, key, receiver) => members[key] ?? Reflect.get(target, key, receiver),
  });
}

/** Returns the current use of a pool of `openPool`. */
export function useOf(sql: Sql): PoolUse {
  const read = Reflect.get(sql, USE) as (() => PoolUse) | undefined;
  return read?.() ?? { connections: 0, busy: 0, waiting: 0, refusedForSpace: 0 };
}
