/** SQL of client secrets. Writes the table client_secret, as does the statement that inserts a client. */
import type { Queryable } from '#db/pool.ts';
import type { ClientIdentity } from '../clients-sql.ts';

export type SecretRow = {
  hash: Buffer;
  dateCreated: Date;
  /** Null for the current secret. */ dateExpires: Date | null;
};

/** Returns the valid secrets, the current one first. */
export function listSecrets(sql: Queryable, client: number, now: Date): Promise<SecretRow[]> {
  return sql<SecretRow[]>`
  select hash, date_created as "dateCreated", date_expires as "dateExpires" from client_secret
  where client = ${client} and (date_expires is null or date_expires > ${now})
  order by date_expires desc nulls first, hash
`;
}

/** Locks a confidential client, which serializes changes of its secrets; returns undefined if it is public or deleted. */
export async function lockConfidential(
  sql: Queryable,
  clientId: string,
  now: Date,
): Promise<ClientIdentity | undefined> {
  const [row] = await sql<ClientIdentity[]>`
    update client set date_modified = ${now} where client_id = ${clientId} and not is_public and date_deleted is null
    returning id, client_id as "clientId", name, owner as "ownerId"
  `;
  return row;
}

/** Sets the expiry of all valid secrets to `until`, except those that expire earlier. */
export async function retireSecrets(
  sql: Queryable,
  client: number,
  { until, now }: { until: Date; now: Date },
): Promise<void> {
  await sql`
    update client_secret set date_expires = least(date_expires, ${until}::timestamptz)
    where client = ${client} and (date_expires is null or date_expires > ${now})
  `;
}

export async function insertSecret(sql: Queryable, client: number, hash: Buffer, now: Date): Promise<void> {
  await sql`insert into client_secret (hash, client, date_created) values (${hash}, ${client}, ${now})`;
}

/** Expires the older secrets now and returns their number. */
export async function endRetired(sql: Queryable, client: number, now: Date): Promise<number> {
  const { count } = await sql`
    update client_secret set date_expires = ${now} where client = ${client} and date_expires > ${now}
  `;
  return count;
}
