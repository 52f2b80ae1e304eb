/**
 * P7: GET of a webhook with its bearer check, beside node:http answering the same bytes from memory, and the statements
 * that it costs. With `--profile` also where our process spends its time.
 */
import { randomBytes } from 'node:crypto';
import { createPasswords, PASSWORD_COST, createUser } from '#identity/accounts/users.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { freePort } from '../test/setup/free-port.ts';
import { letAppIn } from '../test/setup/grant-access.ts';
import { startChild } from './setup/child.ts';
import { startDatabase, type Database } from './setup/database.ts';
import type { HttpLoadProcess, Target } from './setup/http-load-process.ts';
import type { MemoryProcess } from './setup/memory-process.ts';
import { printProfile, profiling } from './setup/profile.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { quantile, ratios, spread, table } from './setup/table.ts';
import type { TokenProcess } from './setup/token-process.ts';

const GOAL = 0.25;
const STATEMENTS_GOAL = 2;
const PROFILE_ROWS = 25;

const numbers = { rounds: 5, count: 20_000, connections: 64 };

/** A store, its owner, an app that was let in; answers the app's token. */
async function seed({ sql }: Database): Promise<{ storeId: number; token: string }> {
  const now = new Date();
  const owner = { email: 'owner@example.com', password: 'a long password', now };
  const { id: userId } = await createUser(sql, createPasswords({ hashesAtOnce: 1, cost: PASSWORD_COST }), owner);
  const shop = { name: 'Shop', domain: 'shop.example.com', email: owner.email, timeZone: 'Europe/Berlin', now };
  const { id: storeId } = await createStore(sql, shop);
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const app = await createClient(sql, { name: 'App', redirectUris: ['https://app.example.com/'], trusted: false, now });
  const grant = { clientId: app.client_id, userId, storeId, now };
  const { access_token } = await letAppIn({ sql, baseUrl: 'http://localhost' }, grant);
  return { storeId, token: access_token };
}

const headersFor = (token: string) => ({ 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` });

async function startServer(
  defer: Defer,
  database: Database,
  given: { secretKey: Uint8Array; counts?: boolean; execArgv?: readonly string[] },
) {
  const process = await startChild<TokenProcess>(
    defer,
    import.meta.resolve('./setup/token-process.ts'),
    given.execArgv ?? [],
  );
  const port = await freePort();
  const { address } = database;
  const { secretKey, counts = false } = given;
  const settings = await process.ask('start', { address, port, secretKey, counts });
  return { process, origin: `http://127.0.0.1:${port}`, settings };
}

/** Makes the webhook over the API and reads it once: its path, and the answer that both sides give. */
async function makeWebhook(origin: string, { storeId, token }: { storeId: number; token: string }) {
  const made = await fetch(`${origin}/stores/${storeId}/webhooks`, {
    method: 'POST',
    headers: { ...headersFor(token), 'Content-Type': 'application/json' },
    body: JSON.stringify({
      name: 'Orders',
      format: 'json',
      url: 'https://shop.example.com/hooks/orders',
      query: 'zoom=items,customer',
      encryption_key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      event_resource: 'transaction',
    }),
  });
  if (made.status !== 201) throw new Error(`No webhook: ${made.status} ${await made.text()}`);
  const path = new URL(made.headers.get('location') ?? '').pathname;
  const read = await fetch(origin + path, { headers: headersFor(token) });
  const own = new Set(['connection', 'keep-alive', 'content-length', 'date']);
  const headers = Object.fromEntries([...read.headers].filter(([name]) => !own.has(name)));
  return { path, headers, body: await read.text() };
}

await bench({ numbers, flags: ['profile'] }, async (options, defer) => {
  const { rounds, count, connections } = options;
  const database = await startDatabase(defer);
  const seeded = await seed(database);
  const secretKey = randomBytes(32);
  const server = await startServer(defer, database, { secretKey });
  const webhook = await makeWebhook(server.origin, seeded);
  const memory = await startChild<MemoryProcess>(defer, import.meta.resolve('./setup/memory-process.ts'));
  const port = await freePort();
  await memory.ask('start', { port, headers: webhook.headers, body: webhook.body });
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));

  const targetAt = (origin: string): Target => ({
    origin,
    path: webhook.path,
    authorization: `Bearer ${seeded.token}`,
    method: 'GET',
    headers: { 'service-api-version': '1', accept: 'application/hal+json' },
  });
  const burst = async (origin: string, wanted = count) => {
    const bodies = Array.from({ length: wanted }, () => '');
    const loaded = await load.ask('burst', { target: targetAt(origin), bodies, connections, keeps: false });
    const [failure] = loaded.failures;
    if (failure !== undefined) throw new Error(`${origin}: ${loaded.failures.length} failed, first ${failure}`);
    return loaded;
  };
  const sides = [
    { name: 'halcyon', origin: server.origin, process: server.process },
    { name: 'node:http from memory', origin: `http://127.0.0.1:${port}`, process: memory },
  ] as const;
  heading(
    `P7: GET of a webhook, ${webhook.body.length} bytes, ${connections} connections, ${rounds} rounds of ${count}`,
  );
  print(`Halcyon: ${server.settings}; a process of its own; PostgreSQL: ${database.settings}`);
  print('load   undici in a process of its own; two cores carry it, the server and PostgreSQL');
  const results = sides.map(() => ({ perSecond: [] as number[], p99: [] as number[], us: [] as number[][] }));
  for (const { origin } of sides) await burst(origin);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, { origin, process }] of sides.entries()) {
      const cpu = () => Promise.all([process, database, load].map((part) => part.cpuMs()));
      const before = await cpu();
      const { ms, latencies } = await burst(origin);
      const us = (await cpu()).map((used, part) => ((used - (before[part] ?? 0)) * 1_000) / count);
      results[index]?.perSecond.push((count / ms) * 1_000);
      results[index]?.p99.push(quantile(latencies, 0.99));
      results[index]?.us.push(us);
    }
  }
  const halcyon = results[0]?.perSecond ?? [];
  table(
    ['', 'a second', 'Halcyon ÷ it', 'p99 ms', 'server µs', 'PostgreSQL µs', 'loader µs'],
    results.map(({ perSecond, p99, us }, index) =>
      [
        sides[index]?.name ?? '',
        spread(perSecond),
        spread(ratios(halcyon, perSecond), 2),
        spread(p99, 1),
        [0, 1, 2].map((part) => spread(us.map((parts) => parts[part] ?? Number.NaN))),
      ].flat(),
    ),
  );
  print(`µs: processor time a request. Goal of P7: at least ${GOAL} of it. No request failed.`);

  const counting = await startServer(defer, database, { secretKey, counts: true });
  await burst(counting.origin, 100);
  const before = await counting.process.ask('statements', null);
  await burst(counting.origin, 1_000);
  const each = ((await counting.process.ask('statements', null)) - before) / 1_000;
  print(`statements a request: ${each.toFixed(3)}; goal ≤ ${STATEMENTS_GOAL}`);
  await counting.process.stop();

  if (!options.profile) return;
  const { folder, execArgv } = await profiling(defer);
  const profiled = await startServer(defer, database, { secretKey, execArgv });
  for (let round = 0; round < rounds; round += 1) await burst(profiled.origin);
  await profiled.process.stop();
  await printProfile('our server', folder, PROFILE_ROWS);
});
