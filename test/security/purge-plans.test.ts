/** Purging scans no table, whether few or many rows are to be deleted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccountPurges } from '#identity/accounts/accounts-sql.ts';
import { openPool } from '#db/pool.ts';
import { createDeliveryPurges } from '#delivery/delivery-purges.ts';
import { createIdempotencyPurges } from '#http/idempotency.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { createInvitationPurges } from '#stores/stores-sql.ts';
import { readConfig } from '../../src/config/config.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { testDatabase } from '../setup/database.ts';

const database = await testDatabase();
/** One connection, so that the statistics are those of the statement just sent. */
const sql = openPool(database.address, { connections: 1, applicationName: 'test-plans' });
// A scan of a whole table is counted, and one of a whole index is not.
await sql`select set_config('enable_seqscan', 'on', false), set_config('plan_cache_mode', 'auto', false)`;
const config = readConfig({}, process.cwd());
const purges = [
  ...createOAuthPurges({ sql, config }, openInternalEvents({ baseUrl: 'https://api.example.com' })),
  ...createIdempotencyPurges({ sql }),
  ...createAccountPurges({ sql, auditKeptDays: config.housekeeping.auditKeptDays }),
  ...createDeliveryPurges({ sql, hoursKeptDays: config.housekeeping.webhookHoursKeptDays }).filter(
    ({ name }) => name === 'webhook_hours',
  ),
  ...createInvitationPurges({ sql }),
];

const ROWS = 5_000;
const DUE = 1_000;
const NOW = new Date('2026-07-01T10:00:00.000Z');
const LONG_AGO = new Date('2020-01-01T00:00:00.000Z');
/** Beyond the five executions after which PostgreSQL may use a generic plan. */
const EXECUTIONS = 7;
const TABLES = [
  'access_grant',
  'access_token',
  'audit',
  'authorization_code',
  'client',
  'client_secret',
  'device_authorization',
  'idempotency_key',
  'invitation',
  'password_reset',
  'portal_session',
  'used_challenge',
  'refresh_token',
  'registration_token',
  'session',
  'throttle',
  'webhook',
  'webhook_hour',
];

/** A fifth of the rows of each table has expired. */
async function fill(): Promise<void> {
  const hash = (kind: string) => sql`sha256((${kind} || n)::bytea)`;
  const until = () => sql`${NOW}::timestamptz + make_interval(mins => n - ${DUE}::int) - interval '2 years'
    * (n <= ${DUE}::int)::int + interval '1 hour'`;
  const series = () => sql`generate_series(1, ${ROWS}::int) as n`;
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (0, 256, 'S', 's.example.com', 's@example.com', 'UTC', ${NOW}, ${NOW})`;
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, events, is_active, headers, retry_profile,
      date_created, date_modified)
    select 0, n * 256, 256, 'W', 'partner_automation', '2', 'https://a.example/', '{}', true, '{}', 'hour', ${NOW}, ${NOW}
    from ${series()}`;
  await sql`analyze webhook`;
  await sql`insert into users (id, email, password_hash, date_created) values (1, 'ada@example.com', 'x', ${NOW})`;
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, date_created)
    values (1, 'mailer', 'Mailer', array['https://app.example.com/'], false, ${NOW})`;
  // Every second one of the deleted and of the unused clients still has a grant.
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, is_verified, date_created, date_deleted, unused_until)
    select n + 1, 'app' || n, 'App', array['https://app.example.com/'], false, false, ${NOW},
      case when n <= ${DUE}::int then ${until()} end, ${until()}
    from ${series()}`;
  await sql`
    insert into access_grant (id, client, user_id, scope, date_created)
    select ${ROWS}::int + n, n + 1, 1, 'user_full_access', ${NOW} from ${series()} where n % 2 = 0`;
  await sql`
    insert into access_grant (id, client, user_id, scope, date_created, date_revoked, date_ends)
    select n, 1, 1, 'user_full_access', ${NOW}, case when n % 2 = 0 then ${until()} end,
      case when n % 2 = 1 then ${until()} end from ${series()}`;
  await sql`insert into authorization_code (hash, grant_id, redirect_uri, date_expires)
    select ${hash('code')}, n, 'x', ${until()} from ${series()}`;
  await sql`
    insert into device_authorization (hash, user_code_hash, client, scope, interval_seconds, date_expires)
    select ${hash('device')}, ${hash('user')}, 1, 'user_full_access', 5, ${until()} from ${series()}`;
  await sql`insert into access_token select ${hash('access')}, n, ${until()} from ${series()}`;
  await sql`insert into refresh_token (hash, grant_id, date_expires) select ${hash('refresh')}, n, ${until()} from ${series()}`;
  await sql`insert into client_secret (hash, client, date_created, date_expires)
    select ${hash('secret')}, 1, ${NOW}, ${until()} from ${series()}`;
  await sql`insert into registration_token select ${hash('registration')}, ${NOW}, ${until()} from ${series()}`;
  await sql`insert into session (hash, user_id, date_created, date_expires)
    select ${hash('session')}, 1, ${NOW}, ${until()} from ${series()}`;
  await sql`insert into membership (shard, store_id, user_id, role, date_created) values (0, 256, 1, 'owner', ${NOW})`;
  await sql`insert into portal_session (hash, user_id, store_id, client, date_created, date_expires)
    select ${hash('portal')}, 1, 256, 1, ${NOW}, ${until()} from ${series()}`;
  await sql`insert into used_challenge (hash, date_expires) select ${hash('challenge')}, ${until()} from ${series()}`;
  await sql`insert into password_reset (hash, user_id, date_created, date_expires)
    select ${hash('reset')}, 1, ${NOW}, ${until()} from ${series()}`;
  await sql`
    insert into email_change (hash, undo_hash, user_id, old_email, new_email, date_created, date_expires, date_undo_expires)
    select ${hash('change')}, ${hash('undo')}, 1, 'a@b.cd', 'e@f.gh', '2020-01-01', '2020-01-02', ${until()} from ${series()}`;
  await sql`insert into sign_up (hash, email, date_created, date_expires)
    select ${hash('sign-up')}, 'a@b.cd', '2020-01-01', ${until()} from ${series()}`;
  await sql`insert into idempotency_key (scope, body_hash, date_created)
    select ${hash('scope')}, ${hash('body')}, ${until()} from ${series()}`;
  await sql`insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (1, 257, 'S', 's.example.com', 's@example.com', 'UTC', ${NOW}, ${NOW})`;
  await sql`insert into invitation (shard, id, store_id, hash, role, date_created, date_expires)
    select 1, n * 256 + 1, 257, ${hash('invitation')}, 'member', '2020-01-01', ${until()} from ${series()}`;
  await sql`insert into throttle select ${hash('bucket')}, ${until()} from ${series()}`;
  await sql`insert into audit (id, action, detail, date_created) select n, 'signed_in', '{}', ${until()} from ${series()}`;
  await sql`insert into webhook_hour select 0, n * 256, ${until()}, 'delivered', 1, '{1}' from ${series()}`;
  await sql`analyze`;
}

/** Returns how often each table was scanned since the database was created. */
async function wholeReads(): Promise<Record<string, number>> {
  await sql`select pg_stat_force_next_flush()`;
  const rows = await sql<{ name: string; reads: number }[]>`
    select relname::text as name, seq_scan as reads from pg_stat_user_tables where relname = any(${TABLES})`;
  return Object.fromEntries(rows.map(({ name, reads }) => [name, reads]));
}

test('every batch of every purge uses an index', async () => {
  await fill();
  assert.equal(Object.keys(await wholeReads()).length, TABLES.length);
  for (const { name, purge } of purges) {
    const before = await wholeReads();
    for (let execution = 0; execution < EXECUTIONS; execution += 1)
      assert.equal(await purge(50, LONG_AGO), 0, `${name}: nothing was due then`);
    let deleted = 0;
    for (let execution = 0; execution < EXECUTIONS; execution += 1) deleted += await purge(50, NOW);
    assert.ok(deleted > 0, `${name}: something is due now`);
    assert.deepEqual(await wholeReads(), before, name);
  }
  await sql.end();
});
