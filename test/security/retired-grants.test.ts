/** A grant that a newer one of the same app, user, store and scopes replaces: its tokens work for another day, and then it ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { readConfig } from '../../src/config/config.ts';
import { openEffects } from '../setup/grant-access.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { changeHome, homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

const server = await startAuthorizationServer();
const { alpha, client, newCode, origin, read, redeem, sql, token, wait } = server;
const config = readConfig({}, process.cwd());
const purge = (name: string, limit = 100) =>
  changeHome(sql, async (home) => {
    const purges = createOAuthPurges({ sql: home, config }, await openEffects(home, ISSUER));
    return purges.find((one) => one.name === name)?.purge(limit, server.now());
  });

const refresh = (refreshToken: unknown) =>
  token({ grant_type: 'refresh_token', refresh_token: String(refreshToken), ...client });

async function isActive(value: unknown): Promise<unknown> {
  const body = new URLSearchParams({ token: String(value), ...client });
  const response = await fetch(`${origin}/introspect`, { method: 'POST', body });
  return ((await response.json()) as Record<string, unknown>)['active'];
}

test('the tokens of a replaced grant work for a day, and those of the newer grant go on', async () => {
  const { body: older } = await redeem(await newCode());
  const { body: newer } = await redeem(await newCode());
  wait(31 * MINUTE_MS);
  await purge('authorization_codes');
  for (const { refresh_token: value } of [older, newer]) assert.equal((await refresh(value)).status, 200);
  wait(DAY_MS - 1_000);
  const { body: last } = await refresh(older['refresh_token']);
  assert.equal((await read(alpha, String(last['access_token']))).status, 200);
  assert.equal(await isActive(last['access_token']), true);
  wait(1_000);
  assert.equal((await read(alpha, String(last['access_token']))).status, 401);
  assert.equal(await isActive(last['access_token']), false);
  const refused = await refresh(older['refresh_token']);
  assert.deepEqual([refused.status, refused.body['error']], [400, 'invalid_grant']);
  assert.equal((await refresh(newer['refresh_token'])).status, 200);
  await purge('retired_grants');
  const [row] = await sql<{ ended: number; active: number }[]>`
    select count(date_revoked) as ended, count(*) - count(date_revoked) as active from access_grant where scope <> 'platform'`;
  assert.deepEqual({ ...row }, { ended: 1, active: 1 });
  const entries = await sql<{ body: string }[]>`
    select body from event where resource_type = 'changelog' and store_id = ${alpha} order by id`;
  const { resource, action, actor } = JSON.parse(entries.at(-1)?.body ?? '{}') as Record<string, unknown>;
  assert.deepEqual([resource, action, actor], ['grant', 'revoked', 'halcyon']);
});

test('a grant with an end of its own is replaced too', async () => {
  const { body: older } = await redeem(await newCode());
  await sql`
    update access_grant set date_ends = ${new Date(server.now().getTime() + 365 * DAY_MS)}
    where id = (select max(id) from access_grant where scope <> 'platform')`;
  await redeem(await newCode());
  wait(31 * MINUTE_MS);
  await purge('authorization_codes');
  wait(DAY_MS);
  assert.equal((await refresh(older['refresh_token'])).status, 400);
});

test('of two purges at once one records the replacement of a grant', async () => {
  await redeem(await newCode());
  wait(31 * MINUTE_MS);
  // Its own code replaces earlier grants, which are not locked.
  await purge('authorization_codes');
  const home = homeOf(sql);
  const [older] = await home<{ id: number }[]>`select max(id) as id from access_grant`;
  for (const code of [await newCode(), await newCode()]) await redeem(code);
  wait(31 * MINUTE_MS);
  const purges = await transaction(home, async (tx) => {
    await tx`select from access_grant where id = ${older?.id ?? NaN} for update`;
    // Each takes one of the two codes.
    const both = [purge('authorization_codes', 1), purge('authorization_codes', 1)];
    await until(
      () => waitingForLocks(home),
      (waiting) => waiting === 2,
    );
    return { both };
  });
  await Promise.all(purges.both);
  const entries =
    await home`select from audit where action = 'grant_retired' and detail ->> 'grant' = ${String(older?.id)}`;
  assert.equal(entries.length, 1);
});

test('a code that is never redeemed replaces nothing', async () => {
  const { body } = await redeem(await newCode());
  await newCode();
  wait(31 * MINUTE_MS);
  await purge('authorization_codes');
  wait(2 * DAY_MS);
  assert.equal((await refresh(body['refresh_token'])).status, 200);
});
