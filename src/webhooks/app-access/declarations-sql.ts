/** The statements of the webhooks that apps declare, once for all stores. */
import type { Queryable } from '#db/pool.ts';

/** The declaration of an app. `key` is sealed. */
export type Declaration = { url: string; key: Buffer };

export async function findDeclaration(sql: Queryable, client: number): Promise<Declaration | undefined> {
  const [row] = await sql<Declaration[]>`select url, key from app_webhook where client = ${client}`;
  return row;
}

/** Inserts or changes the declaration of an app; the key stays. */
export async function upsertDeclaration(
  sql: Queryable,
  { client, url, key, now }: { client: number; url: string; key: Buffer; now: Date },
): Promise<void> {
  await sql`
    insert into app_webhook (client, url, key, date_modified) values (${client}, ${url}, ${key}, ${now})
    on conflict (client) do update set url = excluded.url, date_modified = excluded.date_modified`;
}

/** Deletes declarations and returns their number. */
export async function deleteDeclarations(sql: Queryable, clients: readonly number[]): Promise<number> {
  const { count } = await sql`delete from app_webhook where client = any(${clients}::bigint[])`;
  return count;
}

/** Returns a page of apps that no longer exist but have a declaration, in the order of their ids. */
export async function listWithoutApp(
  sql: Queryable,
  { after, limit }: { after: number; limit: number },
): Promise<number[]> {
  const rows = await sql<{ client: number }[]>`
  select a.client from app_webhook a where not exists (select from client c where c.id = a.client) and a.client > ${after}
  order by a.client limit ${limit}`;
  return rows.map(({ client }) => client);
}

/** Returns the sealed keys of declarations that were not sealed with the key, by client. */
export function listDeclarationsOfOtherKey(
  sql: Queryable,
  page: { keyId: Buffer; after: number; limitRows: number },
): Promise<{ client: number; key: Buffer }[]> {
  return sql<{ client: number; key: Buffer }[]>`
  select client, key from app_webhook where client > ${page.after} and substring(key from 2 for 4) <> ${page.keyId}
  order by client limit ${page.limitRows}`;
}

export async function countDeclarationsOfOtherKey(sql: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*) as n from app_webhook where substring(key from 2 for 4) <> ${keyId}`;
  return row?.n ?? 0;
}

/** Replaces sealed keys that are still the ones that were read, and returns their clients. */
export async function replaceDeclarationKeys(
  sql: Queryable,
  rows: readonly { client: number; before: Buffer; after: Buffer }[],
): Promise<number[]> {
  const written = await sql<{ client: number }[]>`
    update app_webhook a set key = r.after
    from unnest(
      ${rows.map(({ client }) => client)}::bigint[], ${rows.map(({ before }) => before)}::bytea[],
      ${rows.map(({ after }) => after)}::bytea[]
    ) as r (client, before, after)
    where a.client = r.client and a.key = r.before
    returning a.client`;
  return written.map(({ client }) => client);
}
