/** SQL of logos. Writes the table client_logo. */
import type { Queryable } from '#db/pool.ts';
import type { PictureType } from './picture.ts';

export type Logo = { mediaType: PictureType; bytes: Buffer };

export async function findLogo(sql: Queryable, clientId: string): Promise<Logo | undefined> {
  const [row] = await sql<Logo[]>`
    select l.media_type as "mediaType", l.bytes
    from client c join client_logo l on l.client = c.id
    where c.client_id = ${clientId} and c.date_deleted is null
  `;
  return row;
}

export async function upsertLogo(sql: Queryable, client: number, logo: Logo, now: Date): Promise<void> {
  await sql`
    insert into client_logo (client, media_type, bytes, date_modified)
    values (${client}, ${logo.mediaType}, ${logo.bytes}, ${now})
    on conflict (client) do update
      set media_type = excluded.media_type, bytes = excluded.bytes, date_modified = excluded.date_modified
  `;
}

export async function deleteLogo(sql: Queryable, client: number): Promise<void> {
  await sql`delete from client_logo where client = ${client}`;
}

/**
 * Locks the client for a change of its logo and marks it unverified if `userId` is its owner; returns false if it is
 * deleted.
 */
export async function touchClient(
  sql: Queryable,
  client: number,
  { userId, now }: { userId: number | null; now: Date },
): Promise<boolean> {
  const { count } = await sql`
    update client
    set date_modified = ${now}, is_verified = is_verified and not coalesce(owner = ${userId}, false)
    where id = ${client} and date_deleted is null
  `;
  return count === 1;
}
