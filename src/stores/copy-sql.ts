/** The copy of a store in the database of its shard. The columns are passed on by name, so a new column needs no change here. */
import type { Queryable } from '#db/pool.ts';

type Key = { shard: number; storeId: number };
/** A row as JSON (`to_jsonb`). */
type Row = Readonly<Record<string, unknown>>;

/** Returns the row of a store in the home database; undefined if it was erased. */
export async function readStoreRow(home: Queryable, { shard, storeId }: Key): Promise<Row | undefined> {
  const [found] = await home<{ row: Row }[]>`
    select to_jsonb(s) as row from store s where shard = ${shard} and id = ${storeId}`;
  return found?.row;
}

/** What depends on the properties of a store in its database. */
export type Copied = { domain: string; timeZone: string };

/** Returns the properties of the copy, and locks it until the transaction ends; undefined if there is none. */
export async function lockCopy(tx: Queryable, { shard, storeId }: Key): Promise<Copied | undefined> {
  const [row] = await tx<Copied[]>`
    select domain, time_zone as "timeZone" from store where shard = ${shard} and id = ${storeId} for no key update`;
  return row;
}

/** Inserts or replaces the copy, and returns its properties. */
export async function upsertCopy(tx: Queryable, row: Row): Promise<Copied | undefined> {
  const [copy] = await tx<Copied[]>`
    insert into store select * from jsonb_populate_record(null::store, ${JSON.stringify(row)}::jsonb)
    on conflict (shard, id) do update set
      name = excluded.name, domain = excluded.domain, email = excluded.email, time_zone = excluded.time_zone,
      subscription_events = excluded.subscription_events, second_factor = excluded.second_factor, sandbox_of = excluded.sandbox_of,
      revision = excluded.revision, date_modified = excluded.date_modified
    returning domain, time_zone as "timeZone"`;
  return copy;
}
