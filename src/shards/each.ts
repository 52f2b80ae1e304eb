/** Reads of all databases that have stores. */
import type { Queryable } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';

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

/** The same for what is only shown: leaves out the databases that are not available, so that a page does not wait for all. */
export async function inAvailable<Row>(
  each: EachDatabase,
  read: (sql: Queryable) => Promise<readonly Row[]>,
): Promise<Row[]> {
  return inEach(each, (sql) =>
    read(sql).catch((error: unknown) => {
      if (isUnavailable(error)) return [];
      throw error;
    }),
  );
}
