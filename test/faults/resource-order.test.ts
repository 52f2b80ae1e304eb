/**
 * Workers with webhooks of the ordering `resource` are killed while an endpoint refuses requests: no version of a resource arrives
 * before the one before it was accepted, and all arrive.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { SEED, seeded } from '../setup/seed.ts';

const random = seeded(SEED);

const KILLS = 8;
const RESOURCES = 6;
const EVENTS_AT_ONCE = 20;
const REFUSED_PERCENT = 10;
const PATIENCE_MS = 120_000;

const fleet = await openFleet();
const { sql } = fleet;
const receiver = await startReceiver();
await sql`
  update webhook set ordering = 'resource', url = ${receiver.url} || substring(url from '//[^/]+(/.*)')`;
const webhooks = await sql<{ storeId: number; path: string }[]>`
  select store_id as "storeId", substring(url from '//[^/]+(/.*)') as path from webhook`;
const storeIds = [...new Set(webhooks.map(({ storeId }) => storeId))];

/** By webhook and resource, the latest version that was accepted. */
const accepted = new Map<string, number>();
const seen = { arrivals: 0, refused: 0, early: [] as string[] };
receiver.answer(({ path, headers, body }, response) => {
  receiver.got.length = 0;
  const values = new Map(Object.entries(headers).map(([name, value]) => [name.replace(/^l\d+-/, ''), Number(value)]));
  const [version = 0, attempt = 0] = ['webhook-resource-version', 'webhook-attempt'].map((name) => values.get(name));
  const resource = `${path} ${(JSON.parse(String(body)) as { id: string }).id}`;
  const last = accepted.get(resource) ?? 0;
  const isRefused = attempt === 1 && random() * 100 < REFUSED_PERCENT;
  seen.arrivals += 1;
  if (isRefused) seen.refused += 1;
  if (version > last + 1) seen.early.push(`${resource} ${version} after ${last}`);
  setTimeout(() => {
    // A killed sender gets no response, and the next owner sends again.
    if (response.destroyed) return;
    if (!isRefused) accepted.set(resource, Math.max(version, accepted.get(resource) ?? 0));
    response.writeHead(isRefused ? 500 : 200).end();
  }, 20);
});

await fleet.startPublisher();
const [origin = ''] = fleet.origins();
const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
const tokenResponse = await fetch(`${origin}/token`, {
  method: 'POST',
  body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform }),
});
const { access_token: token } = (await tokenResponse.json()) as { access_token: string };
const published = new Map<number, number>();

/** Publishes one array in each store: the next versions of all resources. */
async function publish(): Promise<void> {
  for (const storeId of storeIds) {
    const events = Array.from({ length: EVENTS_AT_ONCE }, (_, n) => ({
      event: 'transaction/created',
      resource: { id: `r${n % RESOURCES}` },
    }));
    const headers = {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
    };
    const request = { method: 'POST', headers, body: JSON.stringify(events) };
    const response = await fetch(`${origin}/stores/${storeId}/events`, request);
    assert.equal(response.status, 200, await response.text());
    published.set(storeId, (published.get(storeId) ?? 0) + EVENTS_AT_ONCE);
  }
}

test('no version arrives before the one before it was accepted, though workers are killed', async (t) => {
  const workers = [await fleet.startWorker(), await fleet.startWorker()];
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = seen.arrivals;
    await publish();
    await until(
      async () => seen.arrivals - before,
      (count) => count > 50 * (1 + (kill % 4)),
      PATIENCE_MS,
    );
    const [victim, next] = [workers.shift(), await fleet.startWorker()];
    assert.equal(await victim?.end('SIGKILL'), 'SIGKILL');
    workers.push(next);
  }
  await until(
    () => sql`select from delivery limit 1`,
    ({ length }) => length === 0,
    PATIENCE_MS,
  );
  t.diagnostic(`${seen.arrivals} requests, ${seen.refused} refused, ${KILLS} kills`);
  assert.deepEqual(seen.early.slice(0, 5), []);
  for (const { storeId, path } of webhooks) {
    const versions = Array.from({ length: RESOURCES }, (_, n) => accepted.get(`${path} r${n}`) ?? 0);
    assert.equal(
      versions.reduce((sum, version) => sum + version, 0),
      published.get(storeId),
      path,
    );
  }
  assert.ok(seen.refused > 0);
});
