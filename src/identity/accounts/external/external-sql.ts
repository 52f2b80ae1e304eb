/** SQL of sign-in with OpenID providers. Writes the table external_identity. */
import type { Queryable } from '#db/pool.ts';

/** An account at a provider. The pair is unique and never changes (OpenID Connect Core §5.7). */
export type ExternalIdentity = { issuer: string; subject: string };

/** Links an identity to a user. Returns false if it is linked already, to this or another user. */
export async function insertIdentity(
  sql: Queryable,
  { issuer, subject, userId, now }: ExternalIdentity & { userId: number; now: Date },
): Promise<boolean> {
  const rows = await sql`
    insert into external_identity (id, issuer, subject, user_id, date_created, date_used)
    values (nextval('id_n'), ${issuer}, ${subject}, ${userId}, ${now}, ${now})
    on conflict (issuer, subject) do nothing
    returning id
  `;
  return rows.length === 1;
}

/** Records a sign-in. Returns false if the identity is not linked to this user, or no longer. */
export async function touchIdentity(
  sql: Queryable,
  { issuer, subject, userId, now }: ExternalIdentity & { userId: number; now: Date },
): Promise<boolean> {
  const rows = await sql`
    update external_identity set date_used = ${now}
    where issuer = ${issuer} and subject = ${subject} and user_id = ${userId}
    returning id
  `;
  return rows.length === 1;
}

/** Returns the user to whom an identity is linked. */
export async function findUserOfIdentity(
  sql: Queryable,
  { issuer, subject }: ExternalIdentity,
): Promise<number | undefined> {
  const [row] = await sql<{ userId: number }[]>`
    select user_id as "userId" from external_identity where issuer = ${issuer} and subject = ${subject}
  `;
  return row?.userId;
}

export type LinkedIdentity = ExternalIdentity & { id: number; dateCreated: Date; dateUsed: Date };

export function listIdentities(sql: Queryable, userId: number): Promise<LinkedIdentity[]> {
  return sql<LinkedIdentity[]>`
    select id, issuer, subject, date_created as "dateCreated", date_used as "dateUsed"
    from external_identity where user_id = ${userId} order by id
  `;
}

/** Deletes an identity of a user and returns its issuer; undefined if the user has none of this id. */
export async function deleteIdentity(
  sql: Queryable,
  { userId, id }: { userId: number; id: number },
): Promise<string | undefined> {
  const [row] = await sql<{ issuer: string }[]>`
    delete from external_identity where id = ${id} and user_id = ${userId} returning issuer
  `;
  return row?.issuer;
}

/** Returns whether the person of an account knows a password of it. */
export async function hasPassword(sql: Queryable, userId: number): Promise<boolean> {
  const [row] = await sql<{ hasPassword: boolean }[]>`
    select has_password as "hasPassword" from users where id = ${userId}
  `;
  return row?.hasPassword === true;
}
