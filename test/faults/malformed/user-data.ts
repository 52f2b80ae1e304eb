/** All rows of users' data: requests may lose or change a row only with a successful answer. */
import type { Sql } from '#db/pool.ts';

/** The tables with the columns that identify a row. */
const TABLES = {
  users: ['id'],
  store: ['id'],
  membership: ['store_id', 'user_id'],
  client: ['id', 'client_id'],
  client_secret: ['client'],
  client_logo: ['client'],
  access_grant: ['id'],
  webhook: ['id'],
  recovery: ['id'],
  invitation: ['id'],
  resource: ['store_id', 'type', 'id'],
  event: ['resource_type', 'id'],
} as const;

/** By table and identity of a row, the hash of the whole row. */
export type Kept = ReadonlyMap<string, ReadonlyMap<string, string>>;

export async function readKept(sql: Sql): Promise<Kept> {
  const entries = Object.entries(TABLES).map(async ([table, columns]) => {
    const rows = await sql<{ name: string; hash: string }[]>`
      select concat_ws('/', ${sql(columns)}) as name, md5(string_agg(t::text, ',' order by t::text)) as hash
      from ${sql(table)} t group by ${sql(columns)}`;
    return [table, new Map(rows.map(({ name, hash }) => [name, hash]))] as const;
  });
  return new Map(await Promise.all(entries));
}

export type Difference = { lost: string[]; changed: string[]; added: string[] };

/** Each row as `table/identity`. */
export function differenceOf(before: Kept, after: Kept): Difference {
  const difference: Difference = { lost: [], changed: [], added: [] };
  for (const [table, rows] of before) {
    const present = after.get(table) ?? new Map<string, string>();
    for (const [name, hash] of rows) {
      const now = present.get(name);
      if (now === undefined) difference.lost.push(`${table}/${name}`);
      else if (now !== hash) difference.changed.push(`${table}/${name}`);
    }
    for (const name of present.keys()) if (!rows.has(name)) difference.added.push(`${table}/${name}`);
  }
  return difference;
}
