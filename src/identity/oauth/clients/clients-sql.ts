/** SQL of clients, their logos and their secrets. Writes the tables client, client_logo and client_secret. */
import { firstOf, hasRows, oneOf, totalOf, type Queryable } from '#db/pool.ts';
import { keyExpression } from '#http/external-keys-sql.ts';
import type { LoggedGrant } from '../grants.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf, SettingsOf } from '#http/field-table.ts';
import { clientFields } from './client-fields.ts';
import { isClientId } from '../protocol-requests.ts';
import type { PictureType } from './logo.ts';

export type Client = RowOf<typeof clientFields> & {
  id: number;
  /** Null for the two with full access. */
  scopes: readonly string[] | null;
  /** May use the device authorization grant (RFC 8628). */
  allowsDeviceGrant: boolean;
  /** Why an operator has suspended it; null if it is not suspended. */
  suspendedReason: string | null;
  /** When its logo was uploaded, for the address of the picture; null without one. */
  logoDate: Date | null;
};

/** The columns of the table; those of another table, and `scopes`, are written by hand. */
export const columns = columnsOf(clientFields, 'c');

/** Locks the user, so that creations of clients for one owner are serialized; returns false if there is no such user. */
export function lockOwner(sql: Queryable, userId: number): Promise<boolean> {
  return hasRows(sql`select from users where id = ${userId} for no key update`);
}

export function countClientsOf(sql: Queryable, userId: number): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from client where owner = ${userId} and date_deleted is null
  `);
}

/** Inserts a client and returns its internal id; undefined if the client_id is taken. */
export async function insertClient(
  sql: Queryable,
  client: SettingsOf<typeof clientFields> & {
    clientId: string;
    trusted: boolean;
    allowsDeviceGrant: boolean;
    unusedUntil: Date | null;
    secretHash: Buffer | null;
    managementTokenHash: Buffer | null;
    now: Date;
  },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    with made as (
      insert into client (id, client_id, ${columns.names(sql)}, scopes, owner, trusted, unused_until, allows_device_grant,
        management_token_hash, date_created, date_modified)
      values (nextval('id_n'), ${client.clientId}, ${columns.parameters(sql, client)}, ${client.scopes}::text[],
        ${client.ownerId}, ${client.trusted}, ${client.unusedUntil}, ${client.allowsDeviceGrant},
        ${client.managementTokenHash}::bytea, ${client.now}, ${client.now})
      on conflict (client_id) do nothing
      returning id
    ), kept as (
      insert into client_secret (hash, client, date_created)
      select ${client.secretHash}::bytea, id, ${client.now} from made where not ${client.isPublic}
    )
    select id from made
  `;
  return row?.id;
}

/** `reader`: the client of the platform whose keys (`external_id`) the rows have; null for other callers. */
export function clients(sql: Queryable, reader: number | null = null) {
  const given = {
    webhook_url: sql`a.url`,
    webhook_events: sql`coalesce(a.events, '{}')`,
    webhook_query: sql`a.query`,
    webhook_filter: sql`a.filter`,
    owner: sql`c.owner`,
    external_id: clientKey(sql, reader),
  };
  return sql`
  select c.id, ${columns.selected(sql, given)}, c.scopes, c.allows_device_grant as "allowsDeviceGrant",
    c.suspended_reason as "suspendedReason", l.date_modified as "logoDate"
  from client c left join client_logo l on l.client = c.id left join app_webhook a on a.client = c.id`;
}

/** Returns the expression of the key that the reader has given to a client. */
export function clientKey(sql: Queryable, reader: number | null) {
  return keyExpression(sql, { client: reader, resource: 'client', id: sql`c.id` });
}

/** Returns the client with this client_id; undefined without a statement for a text that cannot be one. */
export async function findClient(
  sql: Queryable,
  clientId: string,
  reader: number | null = null,
): Promise<Client | undefined> {
  if (!isClientId(clientId)) return undefined;
  return firstOf(sql<Client[]>`
    ${clients(sql, reader)} where c.client_id = ${clientId} and c.date_deleted is null`);
}

export function findClientOfId(sql: Queryable, id: number): Promise<Client | undefined> {
  return firstOf(sql<Client[]>`${clients(sql)} where c.id = ${id} and c.date_deleted is null`);
}

/** Returns the client with this internal id and locks its row until the transaction ends. */
export function lockClient(sql: Queryable, id: number, reader: number | null): Promise<Client | undefined> {
  return firstOf(sql<Client[]>`
    ${clients(sql, reader)} where c.id = ${id} and c.date_deleted is null for no key update of c`);
}

/** Returns the client that a management token belongs to; undefined if it is not that of this client. */
export function findManagedClient(sql: Queryable, clientId: string, tokenHash: Buffer): Promise<Client | undefined> {
  return firstOf(sql<Client[]>`
    ${clients(sql)} where c.client_id = ${clientId} and c.date_deleted is null
      and c.management_token_hash = ${tokenHash}
  `);
}

/** Replaces the management token of a client; returns false if another request has replaced it, or the client is suspended. */
export function replaceManagementToken(sql: Queryable, { id, from, to }: { id: number; from: Buffer; to: Buffer }) {
  return hasRows(sql`
    update client set management_token_hash = ${to} where id = ${id} and management_token_hash = ${from} and suspended_reason is null
  `);
}

/** Returns the clients of a user, by name. */
export function listClientsOf(sql: Queryable, userId: number): Promise<Client[]> {
  return sql<Client[]>`
  ${clients(sql)} where c.owner = ${userId} and c.date_deleted is null order by c.name, c.id
`;
}

/**
 * Updates a client and returns its previous state; undefined if there is no such client. If its owner (`userId`) or the client itself
 * changes name, company, scopes or an address, the client becomes unverified.
 */
export function updateClient(
  sql: Queryable,
  change: Client,
  by: { userId: number | null; isByItself: boolean; now: Date },
): Promise<Client | undefined> {
  return firstOf(sql<Client[]>`
    with before as (${clients(sql)} where c.id = ${change.id} and c.date_deleted is null for update of c), changed as (
      update client set
        ${columns.assigned(sql, change)}, scopes = ${change.scopes}::text[], allows_device_grant = ${change.allowsDeviceGrant},
        is_verified = client.is_verified and not (
          (${by.isByItself} or coalesce(client.owner = ${by.userId}, false))
          and (client.name, coalesce(client.company, ''), client.redirect_uris, client.scopes, client.allows_device_grant,
              client.client_uri, client.policy_uri, client.tos_uri, client.initiate_login_uri)
            is distinct from (${change.name}, ${change.company ?? ''}, ${change.redirectUris}::text[],
              ${change.scopes}::text[], ${change.allowsDeviceGrant},
              ${change.clientUri}::text, ${change.policyUri}::text, ${change.tosUri}::text, ${change.initiateLoginUri}::text)
        ),
        date_modified = ${by.now}
      from before where client.id = before.id
    )
    select * from before
  `);
}

/** The identity of a client, for audit and changelog. */
export type ClientIdentity = Pick<Client, 'id' | 'clientId' | 'name' | 'ownerId' | 'dateModified'>;

const identityColumns = (sql: Queryable) =>
  sql`id, client_id as "clientId", name, owner as "ownerId", date_modified as "dateModified"`;

/** Marks a client as verified; returns undefined if there is no such client. */
export function markVerified(sql: Queryable, clientId: string, now: Date): Promise<ClientIdentity | undefined> {
  return firstOf(sql<ClientIdentity[]>`
    update client set is_verified = true, unused_until = null, date_modified = ${now}
    where client_id = ${clientId} and date_deleted is null
    returning ${identityColumns(sql)}
  `);
}

/**
 * Marks a client as deleted, which ends all its grants and tokens with the next request; returns undefined if it is already
 * deleted. A suspension ends with it: the webhooks of the app lose their access, instead of waiting for its end. It writes one row regardless of the number of grants, which retention deletes.
 */
export function markDeleted(sql: Queryable, clientId: string, now: Date): Promise<ClientIdentity | undefined> {
  return firstOf(sql<ClientIdentity[]>`
    update client set date_deleted = ${now}, suspended_reason = null where client_id = ${clientId} and date_deleted is null
    returning ${identityColumns(sql)}
  `);
}

/** Suspends a client for a reason, or ends its suspension (null). Returns undefined if nothing changed. */
export function updateSuspension(sql: Queryable, clientId: string, reason: string | null) {
  return firstOf(sql<ClientIdentity[]>`
    update client set suspended_reason = ${reason}
    where client_id = ${clientId} and date_deleted is null and (suspended_reason is null) <> ${reason === null}
    returning ${identityColumns(sql)}
  `);
}

export function markDeletedOf(sql: Queryable, ownerId: number, now: Date): Promise<ClientIdentity[]> {
  return sql<ClientIdentity[]>`
  update client set date_deleted = ${now}, suspended_reason = null where owner = ${ownerId} and date_deleted is null
  returning ${identityColumns(sql)}
`;
}

type StoreGrant = Pick<LoggedGrant, 'grantId' | 'userId' | 'storeId' | 'permissions'>;

/** Returns a page of a client's active grants for stores, by id. */
export function storeGrantsOf(sql: Queryable, client: number, { after, limit }: { after: number; limit: number }) {
  return sql<StoreGrant[]>`
  select id as "grantId", user_id as "userId", store_id as "storeId", permissions from access_grant
  where client = ${client} and store_id is not null and date_revoked is null and id > ${after}
  order by id limit ${limit}
`;
}

/** The usage of a client: the number of users, stores and whole accounts with an active grant. */
export type ClientUsage = { people: number; stores: number; accounts: number; lastUsed: Date | null };

/** The maximum number of grants counted, so that the page of a widely used app does not have to wait. */
export const GRANTS_COUNTED_MAX = 10_000;

/** Counts the active grants of a client, at most `GRANTS_COUNTED_MAX`. */
export function usageOf(sql: Queryable, client: number): Promise<ClientUsage> {
  return oneOf(sql<ClientUsage[]>`
    select count(distinct user_id) as people, count(distinct store_id) as stores,
      count(distinct user_id) filter (where store_id is null) as accounts, max(date_used) as "lastUsed"
    from (
      select user_id, store_id, date_used from access_grant
      where client = ${client} and user_id is not null and date_revoked is null
      limit ${GRANTS_COUNTED_MAX}
    ) g`);
}

type Logo = { mediaType: PictureType; bytes: Buffer };

export function findLogo(sql: Queryable, clientId: string): Promise<Logo | undefined> {
  return firstOf(sql<Logo[]>`
    select l.media_type as "mediaType", l.bytes
    from client c join client_logo l on l.client = c.id
    where c.client_id = ${clientId} and c.date_deleted is null
  `);
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
export function touchClient(sql: Queryable, client: number, { userId, now }: { userId: number | null; now: Date }) {
  return hasRows(sql`
    update client
    set date_modified = ${now}, is_verified = is_verified and not coalesce(owner = ${userId}, false)
    where id = ${client} and date_deleted is null
  `);
}

type SecretRow = {
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
export function lockConfidential(sql: Queryable, clientId: string, now: Date): Promise<ClientIdentity | undefined> {
  return firstOf(sql<ClientIdentity[]>`
    update client set date_modified = ${now} where client_id = ${clientId} and not is_public and date_deleted is null
    returning ${identityColumns(sql)}
  `);
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

/** Expires the older secrets now, and returns whether there are any. */
export function endRetired(sql: Queryable, client: number, now: Date): Promise<boolean> {
  return hasRows(sql`
    update client_secret set date_expires = ${now} where client = ${client} and date_expires > ${now}
  `);
}
