/** Reads of all databases that have stores. */
import type { Queryable } from '#db/pool.ts';

/** Returns all databases that have stores. */
export type EachDatabase = () => readonly Queryable[];

/** Runs a read in each database and returns the rows of all. */
export async function inEach<Row>(
  each: EachDatabase,
  read: (sql: Queryable) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows = await Promise.all(each().map((sql) => read(sql)));
  return rows.flat();
}
