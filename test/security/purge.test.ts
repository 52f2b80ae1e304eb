/** Expired rows are deleted, and none before its time: each kind on both sides of its limit. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { beforeEach, test } from 'node:test';
import { createAccountPurges } from '#identity/accounts/accounts-sql.ts';
import { transaction } from '#db/pool.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { readConfig } from '../../src/config/config.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { testDatabase } from '../setup/database.ts';

const { sql } = await testDatabase();
const config = readConfig({}, process.cwd());
const purges = [
  ...createOAuthPurges({ sql, config }, openInternalEvents({ baseUrl: 'https://api.example.com' })),
  ...createAccountPurges({ sql, auditKeptDays: config.housekeeping.auditKeptDays }),
];

const NOW = new Date('2026-07-01T10:00:00.000Z');
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const ago = (ms: number): Date => new Date(NOW.getTime() - ms);

async function purge(name: string, limit = 100): Promise<number> {
  const found = purges.find((one) => one.name === name);
  assert.ok(found, `nothing purges ${name}`);
  return found.purge(limit, NOW);
}

beforeEach(async () => {
  await sql`truncate users, client, throttle, audit, registration_token cascade`;
  await sql`insert into users (id, email, password_hash, date_created) values (1, 'ada@example.com', 'x', ${NOW})`;
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, date_created)
    values (1, 'mailer', 'Mailer', array['https://app.example.com/'], false, ${NOW})`;
});

async function newGrant(id: number, revoked: Date | null = null): Promise<void> {
  await sql`
    insert into access_grant (id, client, user_id, scope, date_created, date_revoked)
    values (${id}, 1, 1, 'user_full_access', ${NOW}, ${revoked})`;
}
async function newCode(grant: number, expires: Date, used: Date | null): Promise<void> {
  await sql`
    insert into authorization_code (hash, grant_id, redirect_uri, date_expires, used_at)
    values (${randomBytes(32)}, ${grant}, 'https://app.example.com/', ${expires}, ${used})`;
}
async function newAccessToken(grant: number, expires: Date): Promise<void> {
  await sql`insert into access_token (hash, grant_id, date_expires) values (${randomBytes(32)}, ${grant}, ${expires})`;
}
async function newRefreshToken(grant: number, expires: Date, rotated: Date | null = null): Promise<void> {
  await sql`
    insert into refresh_token (hash, grant_id, date_expires, rotated_at)
    values (${randomBytes(32)}, ${grant}, ${expires}, ${rotated})`;
}
async function insertPortalLinkOfMember(expires: Date): Promise<void> {
  await sql`
    with shop as (
      insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
      values (0, 256, 'S', 's.example.com', 's@example.com', 'UTC', ${NOW}, ${NOW}) on conflict do nothing
    ), member as (
      insert into membership (shard, store_id, user_id, role, date_created) values (0, 256, 1, 'owner', ${NOW}) on conflict do nothing
    )
    insert into portal_session (hash, user_id, store_id, client, date_created, date_expires)
    values (${randomBytes(32)}, 1, 256, 1, ${NOW}, ${expires})`;
}
/** The grants of the rows of this table, or, of access_grant, the grants. */
async function grantsIn(table: string): Promise<number[]> {
  const column = table === 'access_grant' ? 'id' : 'grant_id';
  const rows = await sql<{ id: number }[]>`select ${sql(column)} as id from ${sql(table)} order by 1`;
  return rows.map(({ id }) => id);
}

test('a code is kept for thirty minutes after it expired', async () => {
  const [gone, kept] = [ago(30 * MINUTE_MS), ago(30 * MINUTE_MS - SECOND_MS)];
  for (const [at, expires] of [gone, kept].entries()) {
    await newGrant(at + 1);
    await newCode(at + 1, expires, expires);
  }
  assert.equal(await purge('authorization_codes'), 1);
  assert.deepEqual(await grantsIn('authorization_code'), [2]);
});

test('the grant of a code that was never redeemed is deleted with it, that of a redeemed code is not', async () => {
  for (const grant of [1, 2]) await newGrant(grant);
  await newCode(1, ago(HOUR_MS), null);
  await newCode(2, ago(HOUR_MS), ago(HOUR_MS));
  await newRefreshToken(2, NOW);
  assert.equal(await purge('authorization_codes'), 2);
  assert.deepEqual(await grantsIn('access_grant'), [2]);
  assert.deepEqual(await grantsIn('refresh_token'), [2]);
});

/** Grants 1 to `grants.length`, each a minute after the one before; the last one's code was redeemed. */
async function retiring(...grants: readonly Readonly<Record<string, unknown>>[]): Promise<number[]> {
  for (const [at, grant] of grants.entries()) {
    const row = { client: 1, user_id: 1, scope: 'user_full_access', store_id: null, permissions: null, ...grant };
    const created = ago(DAY_MS - at * MINUTE_MS);
    await sql`
      insert into access_grant (id, client, user_id, scope, store_id, permissions, date_created)
      values (${at + 1}, ${row.client}, ${row.user_id}, ${row.scope}, ${row.store_id}, ${row.permissions}::text[], ${created})`;
  }
  await newCode(grants.length, ago(HOUR_MS), ago(HOUR_MS));
  assert.equal(await purge('authorization_codes'), 1);
  const rows = await sql<{ id: number }[]>`
    select id from access_grant where date_ends = ${new Date(NOW.getTime() + DAY_MS)} order by id`;
  return rows.map(({ id }) => id);
}

test('a redeemed code retires the older grants of the same app, user, store and scopes, each with an audit entry', async () => {
  await sql`insert into users (id, email, password_hash, date_created) values (2, 'bob@example.com', 'x', ${NOW})`;
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, date_created)
    values (2, 'other', 'Other', array['https://app.example.com/'], false, ${NOW})`;
  const store = { scope: 'store_limited', store_id: 7, permissions: ['store_read'] };
  const others = [
    {},
    { ...store, client: 2 },
    { ...store, user_id: 2 },
    { ...store, store_id: 8 },
    { ...store, permissions: ['store_read', 'webhooks'] },
    { scope: 'store_full_access', store_id: 7 },
  ];
  assert.deepEqual(await retiring(...others, store, store, store), [7, 8]);
  const entries = await sql<{ grant: number }[]>`
    select (detail->>'grant')::int as grant from audit where action = 'grant_retired' and client = 1 order by 1`;
  assert.deepEqual(
    entries.map(({ grant }) => grant),
    [7, 8],
  );
});

test('a code that was not redeemed, a revoked grant and one of a public client retire nothing', async () => {
  for (const grant of [1, 2]) await newGrant(grant);
  await newCode(2, ago(HOUR_MS), null);
  await purge('authorization_codes');
  assert.deepEqual(await grantsIn('access_grant'), [1]);
  await newGrant(3, NOW);
  await newCode(3, ago(HOUR_MS), ago(HOUR_MS));
  await purge('authorization_codes');
  await sql`update client set is_public = true, rotates_refresh_tokens = true`;
  await newGrant(4);
  await newCode(4, ago(HOUR_MS), ago(HOUR_MS));
  await purge('authorization_codes');
  assert.deepEqual([...(await sql`select id from access_grant where date_ends is not null`)], []);
});

test('a retired grant is revoked at its end, one of a deleted client is left to the deletion', async () => {
  for (const grant of [1, 2]) await newGrant(grant);
  await sql`update access_grant set date_ends = case id when 1 then ${NOW} else ${ago(-SECOND_MS)} end`;
  const revoked = async () => {
    const rows = await sql<{ id: number }[]>`select id from access_grant where date_revoked = ${NOW}`;
    return rows.map(({ id }) => id);
  };
  assert.equal(await purge('retired_grants'), 1);
  assert.deepEqual(await revoked(), [1]);
  await sql`update access_grant set date_ends = ${NOW}`;
  await sql`update client set date_deleted = ${NOW}`;
  assert.equal(await purge('retired_grants'), 0);
  assert.deepEqual(await revoked(), [1]);
});

test('an access token is kept for a day after it expired', async () => {
  for (const grant of [1, 2]) await newGrant(grant);
  await newAccessToken(1, ago(DAY_MS));
  await newAccessToken(2, ago(DAY_MS - SECOND_MS));
  assert.equal(await purge('access_tokens'), 1);
  assert.deepEqual(await grantsIn('access_token'), [2]);
  assert.deepEqual(await grantsIn('access_grant'), [1, 2]);
});

test('a refresh token that was unused for a year is deleted with its grant', async () => {
  for (const grant of [1, 2]) await newGrant(grant);
  await newRefreshToken(1, NOW);
  await newRefreshToken(2, new Date(NOW.getTime() + SECOND_MS));
  assert.equal(await purge('refresh_tokens'), 1);
  assert.deepEqual(await grantsIn('refresh_token'), [2]);
  assert.deepEqual(await grantsIn('access_grant'), [2]);
});

test('a rotated refresh token is deleted without its grant', async () => {
  await newGrant(1);
  await newRefreshToken(1, NOW, ago(30 * DAY_MS));
  await newRefreshToken(1, new Date(NOW.getTime() + DAY_MS));
  assert.equal(await purge('refresh_tokens'), 1);
  assert.deepEqual(await grantsIn('refresh_token'), [1]);
});

test('a revoked grant is deleted after thirty days with all its tokens', async () => {
  await newGrant(1, ago(30 * DAY_MS));
  await newGrant(2, ago(30 * DAY_MS - SECOND_MS));
  await newGrant(3);
  for (const grant of [1, 2, 3]) await newRefreshToken(grant, new Date(NOW.getTime() + DAY_MS));
  assert.equal(await purge('revoked_grants'), 1);
  assert.deepEqual(await grantsIn('access_grant'), [2, 3]);
  assert.deepEqual(await grantsIn('refresh_token'), [2, 3]);
});

test('a client secret is deleted when its overlap has ended, and one without an end stays', async () => {
  const ends = [NOW, new Date(NOW.getTime() + SECOND_MS), null];
  for (const ended of ends)
    await sql`insert into client_secret (hash, client, date_created, date_expires)
      values (${randomBytes(32)}, 1, ${NOW}, ${ended})`;
  assert.equal(await purge('client_secrets'), 1);
  const rows = await sql`select date_expires from client_secret order by date_expires`;
  assert.deepEqual(
    rows.map((row) => row['date_expires'] as Date | null),
    ends.slice(1),
  );
});

// oxfmt-ignore
const simple: [name: string, keptMs: number, insert: (until: Date, n: number) => Promise<unknown>, count: () => Promise<readonly unknown[]>][] = [
  ['registration_tokens', 0, (until) => sql`insert into registration_token values (${randomBytes(32)}, ${NOW}, ${until})`, () => sql`select from registration_token`],
  ['sessions', 0, (until) => sql`insert into session (hash, user_id, date_created, date_expires) values (${randomBytes(32)}, 1, ${NOW}, ${until})`, () => sql`select from session`],
  ['portal_sessions', 0, (until) => insertPortalLinkOfMember(until), () => sql`select from portal_session`],
  ['used_challenges', 0, (until) => sql`insert into used_challenge (hash, date_expires) values (${randomBytes(32)}, ${until})`, () => sql`select from used_challenge`],
  ['password_resets', 0, (until) => sql`insert into password_reset (hash, user_id, date_created, date_expires) values (${randomBytes(32)}, 1, ${NOW}, ${until})`, () => sql`select from password_reset`],
  ['email_changes', 0, (until) => sql`insert into email_change (hash, undo_hash, user_id, old_email, new_email, date_created, date_expires, date_undo_expires) values (${randomBytes(32)}, ${randomBytes(32)}, 1, 'a@b.cd', 'e@f.gh', '2000-01-01', '2000-01-02', ${until})`, () => sql`select from email_change`],
  ['sign_ups', 0, (until) => sql`insert into sign_up (hash, email, date_created, date_expires) values (${randomBytes(32)}, 'a@b.cd', '2000-01-01', ${until})`, () => sql`select from sign_up`],
  ['throttle_buckets', 0, (until) => sql`insert into throttle values (${randomBytes(32)}, ${until})`, () => sql`select from throttle`],
  ['audit_entries', 365 * DAY_MS, (until, n) => sql`insert into audit (id, action, detail, date_created) values (${n}, 'signed_in', '{}', ${until})`, () => sql`select from audit`],
];
for (const [name, keptMs, insert, count] of simple) {
  test(`${name} are deleted when they have expired and not a second before`, async () => {
    await insert(ago(keptMs), 1);
    await insert(ago(keptMs - SECOND_MS), 2);
    assert.equal(await purge(name), 1);
    assert.equal((await count()).length, 1);
    assert.equal(await purge(name), 0);
  });
}

test('a client that registered itself is deleted unless it has had a grant by then, and stays for good after one', async () => {
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, is_verified, unused_until, date_created)
    select id, 'c' || id, 'C', array['https://app.example.com/'], false, false, until, ${NOW}
    from unnest(${[2, 3, 4]}::bigint[], ${[NOW, new Date(NOW.getTime() + SECOND_MS), NOW]}::timestamptz[]) as c (id, until)`;
  await newGrant(1);
  await sql`update access_grant set client = 4`;
  assert.equal(await purge('unused_clients'), 1);
  const rows = await sql<{ id: number; waits: boolean }[]>`
    select id, unused_until is not null as waits from client order by id`;
  assert.deepEqual(
    rows.map(({ id, waits }) => [id, waits]),
    [
      [1, false],
      [3, true],
      [4, false],
    ],
  );
});

test('a client of a metadata document is kept while it has a grant or is suspended, and waits again', async () => {
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, is_public, rotates_refresh_tokens, is_verified, unused_until,
      suspended_reason, date_created)
    select id, 'https://agent.example/' || id, 'C', array['https://app.example.com/'], false, true, true, false, ${NOW}, reason, ${NOW}
    from unnest(array[2, 3, 4]::bigint[], array[null, null, 'Abuse']) as c (id, reason)`;
  await newGrant(1);
  await sql`update access_grant set client = 3`;
  assert.equal(await purge('unused_clients'), 1);
  const rows = await sql<{ id: number; until: Date | null }[]>`
    select id, unused_until as until from client where id > 1 order by id`;
  const next = new Date(NOW.getTime() + 30 * DAY_MS);
  assert.deepEqual(
    rows.map(({ id, until }) => [id, until]),
    [
      [3, next],
      [4, next],
    ],
  );
});

test('each kind has one purge', () => {
  const names = purges.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.equal(names.length, 19);
});

test('a batch has its maximum size and deletes the oldest rows first', async () => {
  for (const grant of [1, 2, 3, 4, 5]) {
    await newGrant(grant);
    await newAccessToken(grant, ago(grant * 2 * DAY_MS));
  }
  assert.equal(await purge('access_tokens', 2), 2);
  assert.deepEqual(await grantsIn('access_token'), [1, 2, 3]);
  assert.equal(await purge('access_tokens', 2), 2);
  assert.equal(await purge('access_tokens', 2), 1);
});

test('a locked row is left for the next round, without waiting', async () => {
  for (const grant of [1, 2]) {
    await newGrant(grant);
    await newRefreshToken(grant, ago(DAY_MS));
  }
  await transaction(sql, async (tx) => {
    await tx`select from refresh_token where grant_id = 1 for update`;
    assert.equal(await purge('refresh_tokens'), 1);
    assert.deepEqual(await grantsIn('refresh_token'), [1]);
  });
  assert.equal(await purge('refresh_tokens'), 1);
});

test('the rows of a deleted client are deleted grant by grant, and then the client', async () => {
  for (const id of [1, 2, 3]) await newGrant(id);
  assert.equal(await purge('grants_of_deleted_clients'), 0);
  await sql`update client set date_deleted = ${ago(MINUTE_MS - SECOND_MS)} where id = 1`;
  assert.equal(await purge('grants_of_deleted_clients'), 0, 'not while requests may still be in progress');
  await sql`update client set date_deleted = ${ago(MINUTE_MS)} where id = 1`;
  assert.equal(await purge('deleted_clients'), 0, 'not before its grants');
  assert.equal(await purge('grants_of_deleted_clients', 2), 2);
  assert.equal(await purge('grants_of_deleted_clients', 2), 1);
  assert.equal(await purge('deleted_clients'), 1);
  assert.deepEqual([...(await sql`select from client`)], []);
});
