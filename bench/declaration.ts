/**
 * What a change of what an app declares costs that is installed in many stores: the time of the response, until all stores have followed, and of
 * the longest transaction meanwhile. Runs with a version without progress, too: there the response comes after all stores.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from '#identity/oauth/clients/clients.ts';
import type { Sql } from '#db/pool.ts';
import { json, platformToken } from './setup/platform-requests.ts';
import { bench, heading } from './setup/run.ts';
import { startServer } from './setup/server.ts';
import { spread, table } from './setup/table.ts';

const numbers = { rounds: 3, stores: 10_000 };
const POLL_MS = 10;

/** Inserts stores, each with a person who has let the app in. */
async function seed(sql: Sql, client: string, stores: number): Promise<void> {
  await sql`
    insert into users (id, email, password_hash, date_created)
    select n, n || '@example.com', '-', now() from generate_series(1000001, 1000000 + ${stores}::int) as n`;
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    select n % 256, n, 'Shop', 'shop.example.com', 'a@example.com', 'UTC', now(), now()
    from generate_series(1000001, 1000000 + ${stores}::int) as n`;
  await sql`
    insert into membership (shard, store_id, user_id, role, date_created) select shard, id, id, 'owner', now() from store where id > 1000000`;
  await sql`
    insert into access_grant (id, client, user_id, scope, store_id, date_created)
    select nextval('id_n'), (select id from client where client_id = ${client}), id, 'store_full_access', id, now()
    from store where id > 1000000`;
  await sql`analyze`;
}

/** Returns the longest time in ms that a transaction was open, until the function is called. */
function watch(sql: Sql): () => Promise<number> {
  const state = { isOver: false, longestMs: 0 };
  const watching = (async () => {
    while (!state.isOver) {
      const [row] = await sql<{ ms: number | null }[]>`
        select max(extract(epoch from clock_timestamp() - xact_start) * 1000)::float8 as ms from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' and backend_type = 'client backend'`;
      state.longestMs = Math.max(state.longestMs, row?.ms ?? 0);
      await delay(POLL_MS);
    }
  })();
  return async () => {
    state.isOver = true;
    await watching;
    return state.longestMs;
  };
}

/** The last change leaves the app without a declaration, as before the first one, so that the rounds are the same. */
const CHANGES: readonly (readonly [name: string, body: Readonly<Record<string, unknown>>])[] = [
  ['first declaration', { webhook_url: 'https://app.example.com/1' }],
  ['another url', { webhook_url: 'https://app.example.com/2' }],
  ['events of two resources', { webhook_events: ['transaction/created', 'customer/created'] }],
  ['another filter', { webhook_filter: 'total_order:greaterthan=1' }],
  ['removed', { webhook_url: null, webhook_events: [], webhook_filter: null }],
];

await bench({ numbers }, async ({ rounds, stores }, defer) => {
  const server = await startServer(defer, 'external', {});
  const { sql, origin } = server;
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
  const authorization = `Bearer ${await platformToken(origin, platform)}`;
  const details = { name: 'App', redirectUris: ['https://app.example.com/cb'], trusted: false, now: new Date() };
  const { client_id: client } = await createClient(sql, details);
  await seed(sql, client, stores);
  const ask = async (method: string, body?: object): Promise<Record<string, unknown> | undefined> => {
    const response = await fetch(`${origin}/clients/${client}`, {
      method,
      headers: { ...json, authorization },
      ...(body && { body: JSON.stringify(body) }),
    });
    return response.ok ? ((await response.json()) as Record<string, unknown>) : undefined;
  };
  heading(`A change of the declaration of an app in ${stores} stores, ms`);
  const times = new Map<string, { response: number[]; all: number[]; longest: number[] }>();
  for (let round = 0; round < rounds; round += 1)
    for (const [name, body] of CHANGES) {
      const longest = watch(sql);
      const startedMs = performance.now();
      const changed = await ask('PATCH', body);
      const responseMs = performance.now() - startedMs;
      while (typeof (await ask('GET'))?.['webhook_stores_total'] === 'number') await delay(POLL_MS);
      const allMs = performance.now() - startedMs;
      const longestMs = await longest();
      // A version before refuses members that it does not know.
      if (changed === undefined) continue;
      const of = times.get(name) ?? { response: [], all: [], longest: [] };
      times.set(name, of);
      of.response.push(responseMs);
      of.all.push(allMs);
      of.longest.push(longestMs);
    }
  table(
    ['change', 'response', 'all stores', 'longest transaction'],
    [...times].map(([name, { response, all, longest }]) => [name, spread(response), spread(all), spread(longest)]),
  );
});
