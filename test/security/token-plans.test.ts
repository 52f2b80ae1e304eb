/**
 * Statements of the token endpoint and of the bearer check read a few pages, whatever the statistics say: also for an app that
 * thousands of stores have connected since they were collected.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import {
  endPredecessor,
  findClientWithCode,
  redeemCode,
  refreshGrant,
  findAuthenticatedClient,
} from '#identity/oauth/grants-sql.ts';
import { findBearers, findIntrospected, grantOfRefreshToken } from '#identity/oauth/oauth-sql.ts';
import { findSession } from '#identity/accounts/accounts-sql.ts';
import { testDatabase } from '../setup/database.ts';

const { address } = await testDatabase();
/** One connection, so that plans and statistics are those of the statement just sent. */
const sql = openPool(address, { connections: 1, applicationName: 'test-plans' });

const NOW = new Date();
const LATER = new Date(NOW.getTime() + 3_600_000);
const GRANTS = 1_500;
const EXECUTIONS = 7;
/**
 * Of tables and indexes, their checks of foreign keys included: a refresh reads 32, and 16 or 9 more where the plan of a check is to pass over
 * a table of a few pages. Such plans are made again when other databases of the cluster have dropped many tables, so at any moment. A
 * statement that reads all grants of the app reads more than 1,500.
 */
const PAGES_MAX = 100;
const CLIENT = 256;
const USER = 512;
const STORE = 7;

const TABLES = [
  'client',
  'client_secret',
  'access_grant',
  'access_token',
  'refresh_token',
  'authorization_code',
  'session',
  'users',
];

/** When the statements are planned: how many grants there are, and whether PostgreSQL has counted them. */
const MOMENTS = [
  { moment: 'nothing collected', count: 500, isCollected: false },
  { moment: 'no grants', count: 0, isCollected: true },
  { moment: 'a few grants', count: 3, isCollected: true },
  { moment: 'many grants', count: GRANTS, isCollected: true },
];

const hashOf = (kind: string, n: number): Buffer => createHash('sha256').update(`${kind}${n}`).digest();
const claim = { clientId: 'app', secretHash: hashOf('secret', 0), now: NOW };

/** Grants `from` to `from + count - 1`, each with a code, an access token and a refresh token, and as many people with a session. */
async function connect(from: number, count: number): Promise<void> {
  const numbers = sql`generate_series(${from}::int, ${from + count - 1}::int) as n`;
  await sql`
    insert into access_grant (id, client, user_id, scope, store_id, date_created)
    select n, ${CLIENT}, ${USER}, 'store_full_access', ${STORE}, ${NOW} from ${numbers}`;
  await sql`
    insert into access_token (hash, grant_id, date_expires, predecessor)
    select sha256(('access' || n)::bytea), n, ${LATER}, sha256(('refresh' || n)::bytea) from ${numbers}`;
  await sql`
    insert into refresh_token (hash, grant_id, date_expires)
    select sha256(('refresh' || n)::bytea), n, ${LATER} from ${numbers}`;
  await sql`
    insert into users (id, email, password_hash, date_created)
    select ${USER}::int + n, n || '@example.com', 'x', ${NOW} from ${numbers}`;
  await sql`
    insert into session (hash, user_id, user_agent, date_created, date_expires)
    select sha256(('session' || n)::bytea), ${USER}::int + n, repeat('x', 400), ${NOW}, ${LATER} from ${numbers}`;
  await sql`
    insert into authorization_code (hash, grant_id, redirect_uri, date_expires)
    select sha256(('code' || n)::bytea), n, 'https://app.example.com/', ${LATER} from ${numbers}`;
}

let made = 0;
const token = (kind: string) => ({ hash: hashOf(`new ${kind}`, (made += 1)), expires: LATER });

const STATEMENTS: Readonly<Record<string, (n: number) => Promise<unknown>>> = {
  'authenticate a client': () => findAuthenticatedClient(sql, claim),
  'check a bearer token': async (n) => (await findBearers(sql, [hashOf('access', n)]))[0],
  'introspect a token': (n) => findIntrospected(sql, hashOf('refresh', n)),
  'find a code': (n) => findClientWithCode(sql, claim, hashOf('code', n)),
  'find the grant to revoke': (n) => grantOfRefreshToken(sql, hashOf('refresh', n), CLIENT),
  'find a session': (n) => findSession(sql, hashOf('session', n), NOW),
  'redeem a code': (n) =>
    redeemCode(sql, hashOf('code', n), { access: token('access'), refresh: token('refresh') }, NOW),
  'use an access token': async (n) => {
    await endPredecessor(sql, hashOf('access', n));
    return true;
  },
  refresh: (n) =>
    refreshGrant(sql, claim, {
      hash: hashOf('refresh', n),
      scope: [],
      narrowedTo: null,
      access: token('access'),
      successor: { hash: token('refresh').hash, others: [] },
      grantSecondsMax: 86_400,
      idleUntil: LATER,
      rotatedUntil: LATER,
      reusedSince: NOW,
      now: NOW,
    }),
};

async function pagesRead(): Promise<number> {
  await sql`select pg_stat_force_next_flush()`;
  const [row] = await sql<{ pages: number }[]>`
    select sum(coalesce(heap_blks_read + heap_blks_hit, 0) + coalesce(idx_blks_read + idx_blks_hit, 0))::float8 as pages
    from pg_statio_user_tables where schemaname = 'public'`;
  return row?.pages ?? Number.NaN;
}

test('no statistics make a statement read all grants of an app', async (t) => {
  await sql`
    insert into client (id, client_id, name, redirect_uris, trusted, date_created)
    values (${CLIENT}, 'app', 'App', array['https://app.example.com/'], false, ${NOW})`;
  await sql`insert into client_secret (hash, client, date_created) values (${claim.secretHash}, ${CLIENT}, ${NOW})`;
  await sql`
    insert into users (id, email, password_hash, date_created) values (${USER}, 'a@example.com', 'x', ${NOW})`;
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${STORE}, ${STORE}, 'S', 's.example.com', 's@example.com', 'UTC', ${NOW}, ${NOW})`;
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    values (${STORE}, ${STORE}, ${USER}, 'owner', ${NOW})`;
  // Only this test collects statistics.
  for (const name of TABLES) await sql`alter table ${sql(name)} set (autovacuum_enabled = false)`;
  const tooMany: string[] = [];
  let next = 1;
  for (const { moment, count, isCollected } of MOMENTS) {
    await sql`delete from access_grant`;
    await sql`delete from users where id <> ${USER}`;
    await sql`discard plans`;
    await connect(next, count);
    next += count;
    if (isCollected) await sql`vacuum analyze`;
    for (const run of Object.values(STATEMENTS)) {
      for (let execution = 0; execution < EXECUTIONS; execution += 1) await run(0);
    }
    await connect(next, GRANTS);
    for (const [what, run] of Object.entries(STATEMENTS)) {
      const before = await pagesRead();
      assert.ok(await run(next), what);
      const pages = (await pagesRead()) - before;
      t.diagnostic(`${moment}: ${what}: ${pages} pages`);
      if (pages > PAGES_MAX) tooMany.push(`${moment}: ${what}: ${pages}`);
      next += 1;
    }
    next += GRANTS;
  }
  await sql.end();
  assert.deepEqual(tooMany, []);
});
