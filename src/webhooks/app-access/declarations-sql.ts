/** The statements of what apps declare, once for all stores. */
import type { Queryable } from '#db/pool.ts';
import type { Rotating } from '#core/keys.ts';
import type { Declaration } from './declared.ts';

/** The sealed keys of an app's webhook. */
export type SealedKeys = Rotating<Buffer>;
/** A declaration always has a key, which the store's own webhooks need not have. */
type StoredKeys = SealedKeys & { encryptionKey: Buffer };

const keyColumns = (sql: Queryable) =>
  sql`key as "encryptionKey", next_key as "nextEncryptionKey", rotation_ends_at as "rotationEndsAt"`;

export async function findKeys(sql: Queryable, client: number): Promise<SealedKeys | undefined> {
  const [row] = await sql<StoredKeys[]>`
    select ${keyColumns(sql)} from app_webhook where client = ${client} and url is not null`;
  return row;
}

export async function lockKeys(sql: Queryable, client: number): Promise<SealedKeys | undefined> {
  const [row] = await sql<StoredKeys[]>`
    select ${keyColumns(sql)} from app_webhook where client = ${client} and url is not null for no key update`;
  return row;
}

export async function updateKeys(sql: Queryable, client: number, keys: SealedKeys, now: Date): Promise<void> {
  await sql`
    update app_webhook set key = ${keys.encryptionKey}, next_key = ${keys.nextEncryptionKey},
      rotation_ends_at = ${keys.rotationEndsAt}, date_modified = ${now}
    where client = ${client}`;
}

/** Moves next keys into the place of the current ones after their rotation, and returns the number of declarations. */
export async function moveAppKeys(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    update app_webhook set key = next_key, next_key = null, rotated_at = rotation_ends_at, rotation_ends_at = null
    where client = any(array(
      select client from app_webhook where rotation_ends_at <= ${before} limit ${limit} for update skip locked
    ))`;
  return count;
}

/** Inserts or changes the declaration of an app; the key stays, unless the declaration was removed before. */
export async function upsertDeclaration(
  sql: Queryable,
  { client, key, now, ...declared }: Declaration & { client: number; key: Buffer; now: Date },
): Promise<void> {
  await sql`
    insert into app_webhook as a (client, url, events, query, filter, key, date_modified)
    values (${client}, ${declared.url}, ${declared.events}::text[], ${declared.query}, ${declared.filter}, ${key}, ${now})
    on conflict (client) do update set url = excluded.url, events = excluded.events, query = excluded.query, filter = excluded.filter,
      key = case when a.url is null then excluded.key else a.key end, date_modified = excluded.date_modified`;
}

/** Marks the declaration of an app as removed; returns whether there was one. The key stays for the webhooks that are left. */
export async function markRemoved(sql: Queryable, client: number): Promise<boolean> {
  const { count } = await sql`
    update app_webhook set url = null, events = '{}', query = null, filter = null, next_key = null, rotation_ends_at = null
    where client = ${client}`;
  return count > 0;
}

/** Returns what an app declares in this database: no url if it was removed, and undefined if there is nothing. */
export async function readDeclared(
  sql: Queryable,
  client: number,
): Promise<(Omit<Declaration, 'url'> & { url: string | null }) | undefined> {
  const [row] = await sql<(Omit<Declaration, 'url'> & { url: string | null })[]>`
    select url, events, query, filter from app_webhook where client = ${client}`;
  return row;
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

/** Returns the declaration of an app in the home database as JSON; undefined if there is none. */
export async function readDeclarationRow(
  home: Queryable,
  client: number,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const [found] = await home<{ row: Readonly<Record<string, unknown>> }[]>`
    select to_jsonb(a) as row from app_webhook a where client = ${client}`;
  return found?.row;
}

/** Inserts or replaces the copy of a declaration in another database. */
export async function upsertDeclarationCopy(tx: Queryable, row: Readonly<Record<string, unknown>>): Promise<void> {
  await tx`
    insert into app_webhook select * from jsonb_populate_record(null::app_webhook, ${JSON.stringify(row)}::jsonb)
    on conflict (client) do update set url = excluded.url, events = excluded.events, query = excluded.query, filter = excluded.filter,
      key = excluded.key, next_key = excluded.next_key, rotation_ends_at = excluded.rotation_ends_at, rotated_at = excluded.rotated_at,
      date_modified = excluded.date_modified`;
}
