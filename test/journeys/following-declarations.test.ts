/** An app in many stores changes what it declares: in batches, each a transaction, that any process continues from where the last one ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { transaction, type Tx } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { NEVER_QUIET, testClock } from '../setup/clock.ts';
import { singleDatabase } from '../setup/database.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { markRemoved, upsertDeclaration } from '#webhooks/app-access/declarations-sql.ts';
import { listProgress } from '#webhooks/app-access/follow-sql.ts';
import { beginFollowing, followNext, startFollowing } from '#webhooks/app-access/follow.ts';
import type { Declaration } from '#webhooks/app-access/declared.ts';

const BATCH = 200;
const STORES = 520;

const { sql } = await singleDatabase();
const clock = testClock();
const now = clock.now();
const internalEvents = openInternalEvents({ baseUrl: 'https://api.example.com' });
const deps = { ...internalEvents, announce: internalEvents.announceChanges };

/** Each store has a person of its own, whose id is that of the store and this. */
const PEOPLE = 1_000_000;
await sql`
  insert into users (id, email, password_hash, date_created)
  select n + ${PEOPLE}::int, n || '@example.com', '-', ${now} from generate_series(1, ${STORES}::int) as n`;
await sql`
  insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
  select n % 256, n, 'Shop', 'shop.example.com', 'a@example.com', 'UTC', ${now}, ${now} from generate_series(1, ${STORES}::int) as n`;
await sql`
  insert into membership (shard, store_id, user_id, role, date_created)
  select shard, id, id + ${PEOPLE}::int, 'owner', ${now} from store`;

/** Creates an app with this limited scope in each store; returns its internal id. */
async function installEverywhere(scope: string): Promise<number> {
  const { client_id: clientId } = await createClient(sql, {
    name: 'Gadget',
    redirectUris: ['https://gadget.example.com/callback'],
    trusted: false,
    now,
  });
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  const client = row?.id ?? NaN;
  await sql`
    insert into access_grant (id, client, user_id, scope, store_id, permissions, date_created)
    select nextval('id_n'), ${client}, n + ${PEOPLE}::int, 'store_limited', n, ${[scope]}::text[], ${now}
    from generate_series(1, ${STORES}::int) as n`;
  return client;
}

const BASE: Declaration = {
  url: 'https://gadget.example.com/1',
  events: ['customer/created'],
  query: null,
  filter: null,
};

const declare = (client: number, changes: Partial<Declaration>, tx: Tx): Promise<void> =>
  upsertDeclaration(tx, { ...BASE, ...changes, client, key: Buffer.from('sealed'), now }).then(() =>
    beginFollowing(tx, deps, client, now),
  );
const declaring = (client: number, changes: Partial<Declaration> = {}) =>
  transaction(sql, (tx) => declare(client, changes, tx));
const next = (client: number) => transaction(sql, (tx) => followNext(tx, deps, client, now));

const progressOf = async (client: number) => {
  const [progress] = await listProgress(sql, [client]);
  return progress && [progress.followed, progress.total];
};

/** Returns the number of stores by the url and the resources of their webhooks. */
const shapes = async (client: number): Promise<Record<string, number>> => {
  const rows = await sql<{ shape: string; stores: number }[]>`
    select shape, count(*) as stores from (
      select string_agg(event_resource || case when is_active then '' else ' off' end || ' ' || right(url, 1), ', ' order by event_resource) as shape
      from webhook where client = ${client} group by store_id
    ) as w group by shape`;
  return Object.fromEntries(rows.map(({ shape, stores }) => [shape, stores]));
};

const FIRST = 'app 1, customer 1';
const SECOND = 'app 2';

test('a change is followed in batches, and continues after an interruption at any moment', async () => {
  const client = await installEverywhere('customer:read');
  await declaring(client);
  assert.deepEqual(await progressOf(client), [BATCH, STORES]);
  assert.deepEqual(await shapes(client), { [FIRST]: BATCH });
  while (await next(client));
  assert.deepEqual([await progressOf(client), await shapes(client)], [undefined, { [FIRST]: STORES }]);

  const interrupted = (work: (tx: Tx) => Promise<unknown>) =>
    assert.rejects(
      transaction(sql, async (tx) => {
        await work(tx);
        throw new RangeError('killed before the commit');
      }),
      RangeError,
    );
  const change = { url: 'https://gadget.example.com/2', events: [] };
  await interrupted((tx) => declare(client, change, tx));
  assert.deepEqual([await progressOf(client), await shapes(client)], [undefined, { [FIRST]: STORES }]);
  await declaring(client, change);
  for (const followed of [BATCH, 2 * BATCH]) {
    const before = { [SECOND]: followed, [FIRST]: STORES - followed };
    assert.deepEqual([await progressOf(client), await shapes(client)], [[followed, STORES], before]);
    await interrupted((tx) => followNext(tx, deps, client, now));
    assert.deepEqual([await progressOf(client), await shapes(client)], [[followed, STORES], before]);
    await next(client);
  }
  assert.deepEqual([await progressOf(client), await shapes(client)], [undefined, { [SECOND]: STORES }]);
  const [revisions] =
    await sql`select min(revision) as least, max(revision) as most from webhook where client = ${client}`;
  assert.equal(revisions?.['least'], revisions?.['most'], 'each store has followed each change once');
  const [events] = await sql`select count(*) as n from event where resource_type = 'app'`;
  assert.equal(events?.['n'], 0);
});

test('a process that starts continues what another one has begun, with the last of several changes', async () => {
  const client = await installEverywhere('customer:read');
  await declaring(client);
  await declaring(client, { url: 'https://gadget.example.com/2' });
  assert.deepEqual(await progressOf(client), [BATCH, STORES]);
  await next(client);
  await declaring(client, { url: 'https://gadget.example.com/3' });
  assert.deepEqual(await progressOf(client), [BATCH, STORES]);
  const started = [1, 2].map(() =>
    startFollowing({ ...deps, sql, clock, pace: NEVER_QUIET, log: createLog('silent') }),
  );
  await until(
    () => progressOf(client),
    (progress) => progress === undefined,
  );
  for (const one of started) await one.stop();
  assert.deepEqual(await shapes(client), { 'app 3, customer 3': STORES });
});

test('a declaration that is removed keeps its key until its last webhook is deleted; another one then has a new key', async () => {
  const client = await installEverywhere('customer:read');
  await declaring(client);
  while (await next(client));
  const keys = async () =>
    (await sql<{ key: Buffer }[]>`select key from app_webhook where client = ${client}`).map(({ key }) => String(key));
  await transaction(sql, async (tx) => {
    await markRemoved(tx, client);
    await beginFollowing(tx, deps, client, now);
  });
  assert.deepEqual([await shapes(client), await keys()], [{ [FIRST]: STORES - BATCH }, ['sealed']]);
  await transaction(sql, async (tx) => {
    await upsertDeclaration(tx, { ...BASE, client, key: Buffer.from('new'), now });
    await beginFollowing(tx, deps, client, now);
  });
  assert.deepEqual(await keys(), ['new']);
  await transaction(sql, async (tx) => {
    await markRemoved(tx, client);
    await beginFollowing(tx, deps, client, now);
  });
  while (await next(client));
  assert.deepEqual([await shapes(client), await keys(), await progressOf(client)], [{}, [], undefined]);
});

test('the end of an access and a batch wait for each other, so no webhook outlives it', async () => {
  const client = await installEverywhere('customer:read');
  await declaring(client);
  await next(client);
  const last = STORES - (STORES % 256) - 1;
  const [batch, ending] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const following = transaction(sql, async (tx) => {
    await followNext(tx, deps, client, now);
    batch.resolve();
    await ending.promise;
  });
  await batch.promise;
  const revoking = transaction(sql, async (tx) => {
    await tx`update access_grant set date_revoked = ${now} where client = ${client} and store_id = ${last}`;
    await internalEvents.accessChanged(tx, { client, userId: last + PEOPLE, storeId: last }, now);
  });
  await until(
    () => waitingForLocks(sql),
    (waiting) => waiting > 0,
  );
  ending.resolve();
  await Promise.all([following, revoking]);
  const left = await sql<{ type: string; isActive: boolean }[]>`
    select event_resource as type, is_active as "isActive" from webhook where client = ${client} and store_id = ${last} order by 1`;
  assert.deepEqual(
    left.map(({ type, isActive }) => [type, isActive]),
    [
      ['app', true],
      ['customer', false],
    ],
  );
});
