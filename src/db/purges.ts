/**
 * Deletion of expired rows. Each module lists its own: a name, the rows or the function that deletes them, and how long they are
 * kept. `server/retention.ts` concatenates and runs the lists.
 */
import type { Fragment, Queryable, Sql } from './pool.ts';

/** A kind of expired rows. */
export type Purge = {
  /** Name of the rows, in the plural: the label of their counter, and their line in docs/operating.md. */
  name: string;
  /** How long the rows are kept after they expired. */
  keptMs: number;
  /** Deletes at most `limit` of them, found by an index, and skips locked rows; returns the number deleted. */
  purge: (limit: number, now: Date) => Promise<number>;
};

/** A table, and the columns of an index in whose order its rows are deleted. test/architecture/tables.ts reads `deletes`. */
export type OrderedTable = { deletes: string; order: readonly string[] };

/**
 * A line of a module's list. `keptMs` is 0 if it is absent. `expires` is an indexed column, `key` the primary key, or `ctid` if
 * that has several columns. `by` deletes rows that expired at `before` (`keptMs` before `now`) or earlier.
 */
type Line = { name: string; keptMs?: number } & (
  | { deletes: string; key: string; expires: string }
  | { by: (sql: Sql, before: Date, limit: number, now: Date) => Promise<number> }
);

/**
 * Deletes at most `limit` rows that meet the condition. They are selected by an index, in its order, into an array: with a join, or
 * without the order, the planner may read the whole table. Locked rows are skipped and deleted by a later run.
 */
export async function deleteBatch(
  sql: Queryable,
  { deletes, key, order }: OrderedTable & { key: string },
  condition: Fragment,
  limit: number,
): Promise<number> {
  const { count } = await sql`
    delete from ${sql(deletes)} where ${sql(key)} = any(array(
      select ${sql(key)} from ${sql(deletes)} where ${condition}
      order by ${sql(order)} limit ${limit} for update skip locked
    ))`;
  return count;
}

/** Returns the purges that a module's list describes. */
export function purgesOf(sql: Sql, lines: readonly Line[]): readonly Purge[] {
  return lines.map(({ name, keptMs = 0, ...line }) => ({
    name,
    keptMs,
    purge: (limit, now) => {
      const before = new Date(now.getTime() - keptMs);
      if ('by' in line) return line.by(sql, before, limit, now);
      const { deletes, key, expires } = line;
      return deleteBatch(sql, { deletes, key, order: [expires] }, sql`${sql(expires)} <= ${before}`, limit);
    },
  }));
}
