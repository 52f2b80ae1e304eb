/**
 * How many files of src/ five requests pass through, from V8's coverage of a running server: a reader who follows a request opens as
 * many. Counts each file with a function that runs in every round, besides what runs while the server is idle; the top level of a file
 * does not count. `HALCYON_TEST_FILES=1` lists them.
 */
import assert from 'node:assert/strict';
import { Session } from 'node:inspector/promises';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp, type TestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

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
const ROUNDS = 3;
/** Where more files than allowed are left after `ROUNDS`, so that timers cannot exceed a limit by chance. */
const ROUNDS_MAX = 12;
/** By then the worker has checked all shards after its start. */
const WARMING_MS = 6_000;

/** Returns the files of one round: those with a function that each run calls, besides the calls of an idle server in the same time. */
async function filesOfRound(run: () => Promise<unknown>): Promise<Set<string>> {
  await callsSince();
  const began = performance.now();
  for (let runs = 0; runs < RUNS; runs += 1) await run();
  const calls = await callsSince();
  await pause(performance.now() - began);
  const idle = await callsSince();
  const passed = [...calls].filter(([place, count]) => count >= RUNS + (idle.get(place) ?? 0));
  return new Set(passed.map(([place]) => place.slice(0, place.indexOf(' '))));
}

/** Returns the files of every round, so that what a timer runs in one of them does not count. */
async function filesOf([, limit, run]: Way): Promise<string[]> {
  const warmedAt = performance.now() + WARMING_MS;
  do await run();
  while (performance.now() < warmedAt);
  let files = await filesOfRound(run);
  for (let round = 1; round < ROUNDS || (files.size > limit && round < ROUNDS_MAX); round += 1)
    files = files.intersection(await filesOfRound(run));
  return [...files].toSorted();
}

const receiver = await startReceiver();
const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const settings = { name: 'Customers', format: 'json', encryption_key: key, event_resource: 'customer' };
async function addWebhook({ api, storeId }: TestApp): Promise<string> {
  const made = await api('POST', `/stores/${storeId}/webhooks`, { body: { ...settings, url: receiver.url } });
  return `/webhooks/${((await made.json()) as { id: number }).id}`;
}
const delivering = await startTestApp();
const deliveringWebhook = await addWebhook(delivering);
const app = await startTestApp({ roles: ['serve'] });
const webhook = await addWebhook(app);
const { baseUrl, sql, userId, storeId, clock } = app;
const client = await createClient(sql, {
  name: 'Way',
  redirectUris: ['https://app.example.com/cb'],
  trusted: false,
  now: clock.now(),
});
let tokens = await letAppIn({ sql, baseUrl }, { clientId: client.client_id, userId, storeId, now: clock.now() });
let customer = 0;

async function deliver(): Promise<void> {
  const { api, sql: rows, platformToken: token } = delivering;
  const body = { event: 'customer/created', resource: { id: (customer += 1), first_name: 'Zoë' } };
  await api('POST', `/stores/${delivering.storeId}/events`, { body, token });
  await until(
    async () => receiver.got.length,
    (count) => count === customer,
  );
  await until(
    () => rows`select from delivery`,
    ({ length }) => length === 0,
  );
}

const rename = async ({ api }: TestApp, at: string) =>
  (await api('PATCH', at, { body: { name: `Name ${Math.random()}` } })).text();

const signedIn = await fetch(`${baseUrl}/sign-in`, {
  method: 'POST',
  redirect: 'manual',
  headers: { 'Sec-Fetch-Site': 'same-origin' },
  body: new URLSearchParams({ email: 'owner@example.com', password: 'a long password' }),
});
const cookie = signedIn.headers
  .getSetCookie()
  .map((one) => one.split(';', 1)[0])
  .join('; ');

type Way = readonly [name: string, limit: number, run: () => Promise<unknown>];

/** No more files than `limit` (ARCHITECTURE.md, "Measurements"). */
const deliveries: readonly Way[] = [
  ['publish → delivered', 64, deliver],
  [
    'PATCH of a webhook → delivered with its settings',
    86,
    async () => {
      await rename(delivering, deliveringWebhook);
      await deliver();
    },
  ],
];
const requests: readonly Way[] = [
  ['PATCH of a webhook', 50, () => rename(app, webhook)],
  ['GET of a webhook', 28, async () => (await app.api('GET', webhook)).text()],
  [
    'refresh of a token',
    17,
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
  [
    'page of a webhook',
    55,
    async () => {
      const response = await fetch(baseUrl + webhook, { headers: { Accept: 'text/html', Cookie: cookie } });
      assert.match(await response.text(), /<h2>Settings<\/h2>/);
    },
  ],
];

inspector.connect();
await inspector.post('Profiler.enable');
await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

const check = (way: Way) => {
  const [name, limit] = way;
  return test(`few files are passed through: ${name}`, async (t) => {
    const files = await filesOf(way);
    t.diagnostic(`${files.length} files`);
    if (process.env['HALCYON_TEST_FILES'] !== undefined) for (const file of files) t.diagnostic(`  ${file}`);
    assert.ok(files.length <= limit, `${files.length} files:\n${files.join('\n')}`);
  });
};

for (const way of deliveries) void check(way);
// The timers of a worker would count by chance.
test('the worker stops before the requests', () => delivering.stop());
for (const way of requests) void check(way);
