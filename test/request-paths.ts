/**
 * Prints how many files and functions of src/ four requests pass through, from V8's coverage of a running server:
 * `node_modules/.bin/node test/request-paths.ts`. The goals are in ARCHITECTURE.md. Functions that run as often while the server is
 * idle do not count, nor does the top level of a file.
 */
import { Session } from 'node:inspector/promises';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from './setup/app.ts';
import { globalSetup, globalTeardown } from './setup/global.ts';
import { letAppIn } from './setup/grant-access.ts';
import { startReceiver } from './setup/receiver.ts';
import { until } from './setup/until.ts';

const SOURCE = `file://${process.cwd()}/src/`;
const inspector = new Session();

/** Returns how often each function of src/ has run since the last call, by its file and position. */
async function callsSince(): Promise<Map<string, number>> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  return new Map(
    result
      .filter(({ url }) => url.startsWith(SOURCE))
      .flatMap(({ url, functions }) =>
        functions.map(({ ranges: [whole] }): [string, number] => [
          `${url.slice(SOURCE.length)} ${whole?.startOffset}`,
          // V8 leaves out the top level of some files, which begins at 0.
          whole?.startOffset === 0 ? 0 : (whole?.count ?? 0),
        ]),
      ),
  );
}

const RUNS = 10;
/** By then the worker has checked all shards after its start. */
const WARMING_MS = 6_000;

/** Returns the functions that every run calls, more often than an idle server does in the same time. */
async function measure(run: () => Promise<unknown>) {
  const warmedAt = performance.now() + WARMING_MS;
  do await run();
  while (performance.now() < warmedAt);
  await callsSince();
  const began = performance.now();
  for (let runs = 0; runs < RUNS; runs += 1) await run();
  const calls = await callsSince();
  await new Promise((resolve) => setTimeout(resolve, performance.now() - began));
  const idle = await callsSince();
  const passed = [...calls]
    .filter(([place, count]) => count >= RUNS && count > (idle.get(place) ?? 0))
    .map(([place]) => place);
  return { files: new Set(passed.map((place) => place.slice(0, place.indexOf(' ')))), functions: passed.length };
}

await globalSetup();
try {
  const app = await startTestApp();
  const receiver = await startReceiver();
  const store = `/stores/${app.storeId}`;
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const settings = { name: 'Customers', format: 'json', encryption_key: key, event_resource: 'customer' };
  const made = await app.api('POST', `${store}/webhooks`, { body: { ...settings, url: receiver.url } });
  const webhook = `/webhooks/${((await made.json()) as { id: number }).id}`;
  const { baseUrl, sql, userId, storeId, clock } = app;
  const client = await createClient(sql, {
    name: 'Way',
    redirectUris: ['https://app.example.com/cb'],
    trusted: false,
    now: clock.now(),
  });
  let tokens = await letAppIn({ sql, baseUrl }, { clientId: client.client_id, userId, storeId, now: clock.now() });
  let customer = 0;

  const ways: readonly (readonly [name: string, run: () => Promise<unknown>])[] = [
    [
      'publish → delivered',
      async () => {
        const body = { event: 'customer/created', resource: { id: (customer += 1), first_name: 'Zoë' } };
        await app.api('POST', `${store}/events`, { body, token: app.platformToken });
        await until(
          async () => receiver.got.length,
          (count) => count === customer,
        );
        await until(
          () => sql`select from delivery`,
          (rows) => rows.length === 0,
        );
      },
    ],
    [
      'PATCH of a webhook',
      async () => (await app.api('PATCH', webhook, { body: { name: `Name ${Math.random()}` } })).text(),
    ],
    ['GET of a webhook', async () => (await app.api('GET', webhook)).text()],
    [
      'refresh of a token',
      async () => {
        const body = new URLSearchParams({
          grant_type: 'refresh_token',
          refresh_token: tokens.refresh_token ?? '',
          client_id: client.client_id,
          client_secret: client.client_secret ?? '',
        });
        const response = await fetch(`${baseUrl}/token`, { method: 'POST', body });
        if (response.status !== 200) throw new Error(`No token: ${response.status} ${await response.text()}`);
        tokens = (await response.json()) as typeof tokens;
      },
    ],
  ];
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  for (const [name, run] of ways) {
    const { files, functions } = await measure(run);
    process.stdout.write(`${name.padEnd(20)} ${files.size} files, ${functions} functions\n`);
    if (process.argv.includes('--files'))
      for (const file of [...files].toSorted((a, b) => a.localeCompare(b))) process.stdout.write(`  ${file}\n`);
  }
  inspector.disconnect();
  await app.stop();
} finally {
  await globalTeardown();
}
process.exit();
