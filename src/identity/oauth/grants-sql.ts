/**
 * SQL of the token endpoint, and of the authentication of clients, which is part of its statements. Each write is one statement with data-modifying CTEs, and so its own transaction: BEGIN and
 * COMMIT would be two more round trips at which the connection can fail.
 */
import { firstOf, hasRows, type Queryable } from '#db/pool.ts';
import type { GrantedScope } from './scope.ts';

export type ClientClaim = { clientId: string; secretHash: Buffer | null; now: Date };

export type AuthenticatedClient = {
  id: number;
  clientId: string;
  isPublic: boolean;
  isTrusted: boolean;
  allowsDeviceGrant: boolean;
  /** The scopes that it may ask for; null for the two with full access. */
  scopes: string[] | null;
  /** The default redirect_uri of a client that the operator marked as legacy; null for all others. */
  impliedRedirectUri: string | null;
};

function clientColumns(sql: Queryable) {
  return sql`
  c.id, c.client_id as "clientId", c.is_public as "isPublic", c.trusted as "isTrusted",
  c.allows_device_grant as "allowsDeviceGrant", c.scopes,
  case when c.is_legacy then c.redirect_uris[1] end as "impliedRedirectUri"`;
}

/**
 * Returns the SQL condition that client `c` is authenticated and not suspended: a public client presents no secret, any other client a valid
 * one (several are valid during a rotation). As a condition it can be part of a statement that also does the client's work.
 * The hash is compared by an index, not in constant time: timing could reveal the stored hash, but not the 256 random bits
 * it was computed from.
 */
export function isClientAuthenticated(sql: Queryable, claim: ClientClaim) {
  return sql`${presentsSecret(sql, claim)} and c.suspended_reason is null`;
}

function presentsSecret(sql: Queryable, { clientId, secretHash, now }: ClientClaim) {
  return sql`
  c.client_id = ${clientId}
  and c.date_deleted is null
  and case when c.is_public
    then ${secretHash}::bytea is null
    else exists (
      select from client_secret s
      where s.client = c.id
        and s.hash = ${secretHash}
        and (s.date_expires is null or s.date_expires > ${now})
    )
  end`;
}

/** Returns whether the client is suspended and would be authenticated otherwise. */
export function isSuspendedClient(sql: Queryable, claim: ClientClaim): Promise<boolean> {
  return hasRows(sql`
    select from client c where ${presentsSecret(sql, claim)} and c.suspended_reason is not null`);
}

/** Returns the client; undefined if it is not authenticated. */
export function findAuthenticatedClient(sql: Queryable, claim: ClientClaim): Promise<AuthenticatedClient | undefined> {
  return firstOf(
    sql<AuthenticatedClient[]>`select ${clientColumns(sql)} from client c where ${isClientAuthenticated(sql, claim)}`,
  );
}

/** Returns the condition that the store of grant `g` is suspended. */
function isStoreSuspended(sql: Queryable) {
  return sql`
  exists (select from store where shard = g.store_id % 256 and id = g.store_id and suspended_reason is not null)`;
}

export type StoredToken = { hash: Buffer; expires: Date };

type TokenPair = { access: StoredToken; refresh: StoredToken };

export type Granted = GrantedScope & { storeId: number | null };

export type CodeRow = Granted & {
  client: number;
  grantId: number;
  /** Null for the code of a device. */
  redirectUri: string | null;
  codeChallenge: string | null;
  expires: Date;
  used: boolean;
  revoked: boolean;
  /** The user is disabled. */
  disabled: boolean;
  /** The store of the grant is suspended. */
  suspended: boolean;
};

/**
 * Returns the client with the code that it presents, even another client's code; undefined if the client is not
 * authenticated.
 */
export async function findClientWithCode(
  sql: Queryable,
  claim: ClientClaim,
  hash: Buffer,
): Promise<{ client: AuthenticatedClient; code: CodeRow | undefined } | undefined> {
  const [row] = await sql<(AuthenticatedClient & (CodeRow | { grantId: null }))[]>`
    select ${clientColumns(sql)}, g.client, g.id as "grantId", g.scope, g.permissions, g.store_id as "storeId",
      a.redirect_uri as "redirectUri", a.code_challenge as "codeChallenge", a.date_expires as expires,
      a.used_at is not null as used, g.date_revoked is not null as revoked, u.date_disabled is not null as disabled,
      ${isStoreSuspended(sql)} as suspended
    from client c left join lateral (
      select * from authorization_code where hash = ${hash} offset 0
    ) as a on true left join lateral (
      select * from access_grant where id = a.grant_id offset 0
    ) as g on true left join lateral (
      select * from users where id = g.user_id offset 0
    ) as u on true
    where ${isClientAuthenticated(sql, claim)}
  `;
  return row && { client: row, code: row.grantId === null ? undefined : row };
}

/**
 * Marks the code used and inserts its tokens; returns false if it was already used. Concurrent redemptions wait for the row
 * and then find `used_at` set: this predicate makes the code single-use.
 */
export function redeemCode(sql: Queryable, hash: Buffer, tokens: TokenPair, now: Date): Promise<boolean> {
  return hasRows(sql`
    with used as (
      update authorization_code set used_at = ${now}
      where hash = ${hash}
        and used_at is null
      returning grant_id
    ), access as (
      insert into access_token (hash, grant_id, date_expires)
      select ${tokens.access.hash}, grant_id, ${tokens.access.expires} from used
    ), refresh as (
      insert into refresh_token (hash, grant_id, date_expires)
      select ${tokens.refresh.hash}, grant_id, ${tokens.refresh.expires} from used
    )
    select from used
  `);
}

/** The scope that a refresh asks for: its entries, and the limited scopes of the new access token; null for those of the grant. */
type AskedScope = { scope: readonly string[]; narrowedTo: readonly string[] | null };

/** Returns the condition that grant `g` covers the scope (RFC 6749 §6). Full access to a store covers its limited scopes. */
const isWithinGrant = (sql: Queryable, { scope, narrowedTo }: AskedScope) => sql`
  ${scope}::text[] <@ (array['store_id_' || g.store_id] || case g.scope
    when 'store_limited' then g.permissions
    when 'store_full_access' then array[g.scope] || ${narrowedTo}::text[]
    else array[g.scope] end)`;

/**
 * `unknown`: the client has no such token, or it has expired. `reused`: it was rotated, and its successor has been used. `retries`: it was
 * rotated, and issued again.
 */
export type Refreshed =
  | (Granted & { outcome: 'issued'; grantId: number; rotates: boolean; retries: boolean; successor: Buffer })
  | { outcome: 'reused'; grantId: number }
  | { outcome: 'unknown' | 'ended' | 'suspended' | 'out of scope' };

/** Returns the outcome of a refresh with token `r` of grant `g` and user `u`. */
const outcomeOf = (sql: Queryable, refresh: AskedScope & { reusedSince: Date; now: Date }) => sql`
  case
    when coalesce(r.successor_used, r.rotated_at <= ${refresh.reusedSince}) then 'reused'
    when g.date_revoked is not null or g.date_ends <= ${refresh.now} then 'ended'
    when u.date_disabled is not null then 'ended'
    when g.store_id is not null and not exists (
      select from membership m
      where m.shard = g.store_id % 256 and m.store_id = g.store_id and m.user_id = g.user_id
    ) then 'ended'
    when ${isStoreSuspended(sql)} then 'suspended'
    when not ${isWithinGrant(sql, refresh)} then 'out of scope'
    else 'issued' end`;

/**
 * Refreshes a grant in one statement, which also authenticates the client; undefined if the client is not authenticated.
 * A separate statement for authentication took 270–370 µs of server time per refresh instead of 215–290.
 *
 * The states of a rotating refresh token R (`rotated_at`, `successor_used`). S is its successor, A an access token issued with S:
 *
 *     current (null, null)     refresh with R    → replaced; issues S and A, and marks the predecessor of R: its successor is used
 *     replaced (set, false)    refresh with R    → replaced; issues S again, and another A: the response was lost, or requests are concurrent
 *                              first use of S, A → used up
 *     used up (set, true)      refresh with R    → the grant ends: R or S was stolen (RFC 9700 §4.14.2)
 *     any                      expiry            → deleted; 30 days after the rotation for a token that is not current
 *
 * Each retry issues the same S, so a grant has one current token. If the key that derived S is no longer known, the retry issues another
 * one, and the former S is used up. Of the unused A the newest `UNUSED_ACCESS_TOKENS_MAX` remain.
 *
 * It finds and locks the token's row first, so that concurrent refreshes agree on the state, and so that the statement
 * does not read all grants of the client: with 500 of them, before statistics were collected, that took 700 µs. Locks are taken from the
 * newer refresh token to the older. After a retry the caller ends the former tokens (`endFormerTokens`): in this statement that took 100 µs
 * of PostgreSQL for each refresh.
 *
 * The expiry is never later than the maximum since the consent. It moves in steps of at least a day: for a client that refreshes
 * every two hours, this writes the indexed column once in twelve refreshes (measured: 197 µs of PostgreSQL per refresh against 233).
 * A rotated token keeps rotating even if its client has since been set to stable tokens.
 */
export function refreshGrant(
  sql: Queryable,
  claim: ClientClaim,
  refresh: AskedScope & {
    hash: Buffer;
    access: StoredToken;
    /** `others`: the hashes of the successors under other keys. */
    successor: { hash: Buffer; others: readonly Buffer[] };
    idleUntil: Date;
    /** The longest lifetime of a grant. */
    grantSecondsMax: number;
    /** The expiry of a token that is rotated now. */
    rotatedUntil: Date;
    /** A token without a state that was rotated at this time or earlier, by a process of the version before, counts as reused. */
    reusedSince: Date;
    now: Date;
  },
): Promise<Refreshed | undefined> {
  const { access, successor } = refresh;
  return firstOf(sql<Refreshed[]>`
    with caller as (
      select c.id, c.rotates_refresh_tokens as rotates from client c
      where ${isClientAuthenticated(sql, claim)}
    ), found as (
      select g.id, g.scope, g.permissions, g.store_id, caller.rotates or r.rotated_at is not null as rotates,
        r.rotated_at is not null as retries, r.predecessor,
        least(${refresh.idleUntil}::timestamptz, g.date_max) as until, ${outcomeOf(sql, refresh)} as outcome
      from caller cross join lateral (
        select grant_id, rotated_at, successor_used, predecessor, date_expires from refresh_token
        where hash = ${refresh.hash}
        for update
      ) as r cross join lateral (
        select *, date_created + make_interval(secs => ${refresh.grantSecondsMax}) as date_max
        from access_grant where id = r.grant_id offset 0
      ) as g cross join lateral (
        select * from users where id = g.user_id offset 0
      ) as u
      where g.date_max > ${refresh.now} and r.date_expires > ${refresh.now} and g.client = caller.id
    ), kept as (
      update refresh_token r set
        rotated_at = case when found.rotates then ${refresh.now}::timestamptz end,
        successor_used = case when found.rotates then false end,
        date_expires = case when found.rotates then least(r.date_expires, ${refresh.rotatedUntil})
          else found.until end
      from found
      where found.outcome = 'issued' and r.hash = ${refresh.hash}
        and r.rotated_at is null
        and (found.rotates or r.date_expires < found.until - interval '1 day')
    ), confirmed as (
      update refresh_token set successor_used = true
      where hash = (select predecessor from found where outcome = 'issued') and successor_used is not true
    ), follower as (
      select hash from refresh_token where hash = any(${successor.others}::bytea[])
    ), followed as (
      insert into refresh_token (hash, grant_id, date_expires, predecessor)
      select ${successor.hash}, id, until, ${refresh.hash} from found
      where outcome = 'issued' and rotates and not exists (select from follower)
      on conflict do nothing
    ), issued as (
      insert into access_token (hash, grant_id, date_expires, permissions, predecessor)
      select ${access.hash}, id, ${access.expires}, ${refresh.narrowedTo}::text[], case when rotates then ${refresh.hash}::bytea end
      from found where outcome = 'issued'
    )
    select f.id as "grantId", f.scope, f.permissions, f.store_id as "storeId", f.rotates, f.retries,
      coalesce(f.outcome, 'unknown') as outcome,
      coalesce((select hash from follower limit 1), ${successor.hash}) as successor
    from caller left join found f on true
  `);
}

/** Access tokens that retries with one rotated token leave: the number of a client's processes that may refresh at the same time. */
const UNUSED_ACCESS_TOKENS_MAX = 50;

/**
 * Ends what earlier refreshes with a rotated token left: successors other than this one, and all but the newest unused access tokens. Locks
 * access tokens before refresh tokens, as `endPredecessor` does.
 */
export async function endFormerTokens(
  sql: Queryable,
  { grantId, hash, successor }: { grantId: number; hash: Buffer; successor: Buffer },
  { rotatedUntil, now }: { rotatedUntil: Date; now: Date },
): Promise<void> {
  await sql`
    with former as (
      update refresh_token set rotated_at = ${now}, successor_used = true, date_expires = least(date_expires, ${rotatedUntil})
      where grant_id = ${grantId} and predecessor = ${hash} and hash <> ${successor} and rotated_at is null
    )
    delete from access_token where hash = any(array(
      select hash from access_token where hash = any(array(
        select hash from access_token
        where grant_id = ${grantId} and predecessor = ${hash}
        order by date_expires desc offset ${UNUSED_ACCESS_TOKENS_MAX}
      )) and predecessor = ${hash}
      for update
    ))`;
}

/**
 * Marks the successor of a rotated refresh token as used, because the access token that was issued with it is. Does nothing if that was
 * used before.
 */
export async function endPredecessor(sql: Queryable, accessHash: Buffer): Promise<void> {
  await sql`
    with first as (
      select hash, predecessor from access_token where hash = ${accessHash} and predecessor is not null for update
    ), used as (
      update access_token set predecessor = null where hash = (select hash from first)
    )
    update refresh_token set successor_used = true
    where hash = (select predecessor from first) and successor_used is not true
  `;
}

/**
 * Inserts an access token for the client's platform grant, which the first call creates; returns false if the client does
 * not exist. It locks the client's row, so that a concurrent deletion cannot leave a token without a grant.
 */
export function insertPlatformToken(sql: Queryable, platform: { client: number; access: StoredToken; now: Date }) {
  return hasRows(sql`
    with locked as (
      select id from client where id = ${platform.client} and date_deleted is null for share
    ), standing as (
      select min(g.id) as id from locked cross join lateral (
        select id from access_grant
        where client = locked.id and scope = 'platform' and date_revoked is null
        offset 0
      ) as g
      having min(g.id) is not null
    ), made as (
      insert into access_grant (id, client, scope, date_created)
      select nextval('id_n'), id, 'platform', ${platform.now} from locked where not exists (select from standing)
      returning id
    )
    insert into access_token (hash, grant_id, date_expires)
    select ${platform.access.hash}, id, ${platform.access.expires}
    from (select id from standing union all select id from made) as either
    returning grant_id
  `);
}

/** Inserts a grant for a store with its tokens, without a code; returns undefined if there is no such client. */
export function insertStoreGrant(
  sql: Queryable,
  grant: GrantedScope & {
    clientId: string;
    userId: number;
    storeId: number;
    ends: Date | null;
    tokens: TokenPair;
    now: Date;
  },
): Promise<{ grantId: number; client: number; name: string } | undefined> {
  const { access, refresh } = grant.tokens;
  return firstOf(sql<{ grantId: number; client: number; name: string }[]>`
    with asked as (
      select id, name from client where client_id = ${grant.clientId} and date_deleted is null
    ), made as (
      insert into access_grant (id, client, user_id, scope, permissions, store_id, date_created, date_ends)
      select nextval('id_n'), id, ${grant.userId}, ${grant.scope}, ${grant.permissions}::text[], ${grant.storeId}, ${grant.now},
        ${grant.ends}::timestamptz
      from asked
      returning id
    ), access as (
      insert into access_token (hash, grant_id, date_expires) select ${access.hash}, id, ${access.expires} from made
    ), refresh as (
      insert into refresh_token (hash, grant_id, date_expires) select ${refresh.hash}, id, ${refresh.expires} from made
    )
    select made.id as "grantId", asked.id as client, asked.name from made cross join asked
  `);
}
