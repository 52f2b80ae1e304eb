/**
 * The ledger of events over three PostgreSQL servers, while processes and servers are killed, a standby is promoted, and shards are moved
 * both ways: no event is lost, each duplicate has a fault that explains it, and the order of a webhook that asks for one is kept.
 * `LEDGER_EVENTS=100000` for the whole amount.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import type { Place } from '../setup/fleet/load.ts';
import { openServer } from '../setup/fleet/server.ts';
import { openPair } from '../setup/fleet/standby.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { SEED, seeded } from '../setup/seed.ts';

const random = seeded(SEED);

const run = promisify(execFile);
const MAIN = join(import.meta.dirname, '../../src/main.ts');
const EVENTS = Number(process.env['LEDGER_EVENTS'] ?? 5_000);
const ROUNDS = 8;
/** Events of one resource are published until each has this many versions. */
const RESOURCES = 3;
const REFUSED_PERCENT = 3;
const PATIENCE_MS = 300_000;
const PAUSE_MS = 2_000;

const ends = cleanups();
const LOGICAL = { settings: { wal_level: 'logical' } };
const home = await openServer(ends, LOGICAL);
const one = await openServer(ends, LOGICAL);
const two = await openPair(ends);
const fleet = await openFleet({
  ends,
  server: home,
  others: [
    { server: one, range: { first: 85, last: 169 } },
    { server: two, range: { first: 170, last: 255 } },
  ],
  slots: 32,
  leaseMs: 4_000,
  databaseEnv: { DATABASE_URL: home.url },
});
const { ledger, places, databases } = fleet;
const publishers = [await fleet.startPublisher(), await fleet.startPublisher()];
const workers = [await fleet.startWorker(), await fleet.startWorker()];
const token = await fleet.token();

async function call(path: string, body: object, key: string): Promise<number | undefined> {
  const origins = fleet.origins();
  const origin = origins[Math.trunc(random() * origins.length)] ?? '';
  const headers = {
    'SERVICE-API-VERSION': '1',
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': key,
  };
  const request = { method: 'POST', headers, body: JSON.stringify(body) };
  const response = await fetch(origin + path, request).catch(() => undefined);
  const isExpected = response === undefined || response.status < 300 || response.status === 503;
  assert.ok(isExpected, `${response?.status} ${await response?.text()}`);
  return response?.status;
}

/** Versions of resources at one endpoint for each store and ordering. */
const receiver = await startReceiver(ends);
const accepted = new Map<string, number>();
const seen = { arrivals: 0, early: [] as string[], overtaken: 0 };
receiver.answer(({ path, headers, body }, response) => {
  receiver.got.length = 0;
  const values = new Map(Object.entries(headers).map(([name, value]) => [name.replace(/^l\d+-/, ''), Number(value)]));
  const [version = 0, attempt = 0] = ['webhook-resource-version', 'webhook-attempt'].map((name) => values.get(name));
  const resource = `${path} ${(JSON.parse(String(body)) as { id: string }).id}`;
  const last = accepted.get(resource) ?? 0;
  seen.arrivals += 1;
  if (version > last + 1 && path.startsWith('/ordered')) seen.early.push(`${resource} ${version} after ${last}`);
  if (version < last && path.startsWith('/plain')) seen.overtaken += 1;
  const isRefused = attempt === 1 && random() * 100 < REFUSED_PERCENT;
  if (!isRefused) accepted.set(resource, Math.max(version, last));
  response.writeHead(isRefused ? 500 : 200).end();
});

const ordered = places.flatMap(([place]) => place ?? []);
for (const { storeId } of ordered)
  for (const ordering of ['ordered', 'plain'])
    assert.equal(
      await call(
        `/stores/${storeId}/webhooks`,
        {
          name: ordering,
          url: `${receiver.url}/${ordering}/${storeId}`,
          format: 'json',
          encryption_key: 'key',
          events: ['transaction/modified'],
          retry_profile: 'long',
          ...(ordering === 'ordered' && { ordering: 'resource' }),
        },
        `${ordering}-${storeId}`,
      ),
      201,
    );

const publishing = new AbortController();
ends.after(async () => publishing.abort());
const published = new Map<number, number>();
/** Publishes versions of a few resources of a store, one array after the other. */
async function publishVersions({ storeId }: Place): Promise<void> {
  for (let n = 1; !publishing.signal.aborted; n += 1) {
    const events = Array.from({ length: RESOURCES }, (_, at) => ({
      event: 'transaction/modified',
      resource: { id: `ordered-${at}` },
    }));
    while ((await call(`/stores/${storeId}/events`, events, `versions-${storeId}-${n}`)) !== 200)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    published.set(storeId, n);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

const fault = (what: string): void => workers.forEach(({ life }) => ledger.fault(life, what));

async function killProcesses(): Promise<void> {
  publishers.push(await fleet.startPublisher());
  await publishers.shift()?.end('SIGKILL');
  const worker = workers.shift();
  if (worker !== undefined) ledger.fault(worker.life, 'killed');
  await worker?.end('SIGKILL');
  workers.push(await fleet.startWorker());
}

async function restart({ kill, start }: Pick<typeof one, 'kill' | 'start'>, what: string): Promise<void> {
  fault(what);
  await kill();
  await start();
  fault(what);
}

const moves: string[] = [];

/** Moves shards with `halcyon shards move`; a worker that had them may repeat what it was sending when it lost them. */
async function move(shards: string, to: string): Promise<void> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    DATABASE_URL: home.url,
    HALCYON_SECRET_KEY: fleet.secretKey.toString('hex'),
    HALCYON_DATA: tmpdir(),
  };
  const moving = run(process.execPath, [MAIN, 'shards', 'move', shards, '--to', to], { env });
  moving.child.stderr?.on('data', (text: Buffer) => {
    if (/^(?:block|deliver)$/m.test(String(text))) fault(`shards ${shards} moved`);
  });
  const { stdout } = await moving;
  moves.push(`${shards} to ${to}: ${/[^\n]* was refused for [^\n]*/.exec(stdout)?.[0]}`);
}

/** By round; in the others, processes are killed. */
const SERVERS: Readonly<Record<number, () => Promise<void>>> = {
  1: () => restart(one, 'server killed'),
  2: () => move('40-84', 'database 1'),
  3: () => restart(two, 'standby promoted'),
  5: () => restart(home, 'home killed'),
  6: () => move('85-120', 'home'),
};

test('no event over three servers is lost while processes and servers are killed and shards are moved', async (t) => {
  await fleet.startLoad();
  const versions = ordered.map(publishVersions);
  const events = (): number => fleet.loads.reduce((sum, { accepted: all }) => sum + all.size / 3, 0);
  for (let round = 0; round < ROUNDS; round += 1) {
    await until(
      async () => events(),
      (count) => count >= ((round + 1) * EVENTS) / (ROUNDS + 1),
      PATIENCE_MS,
    );
    await (SERVERS[round] ?? killProcesses)();
  }
  await until(
    async () => events(),
    (count) => count >= EVENTS,
    PATIENCE_MS,
  );
  publishing.abort();
  await Promise.all(versions);
  await fleet.settle(t);
  const lost = fleet.loads.map(
    ({ accepted: all }) => [...all].filter((delivery) => !ledger.wasDelivered(delivery)).length,
  );
  for (const line of moves) t.diagnostic(line);
  t.diagnostic('database | stores | deliveries | lost | versions of the ordered webhook');
  for (const [index, load] of fleet.loads.entries())
    t.diagnostic(
      [index, places[index]?.length, load.accepted.size, lost[index], published.get(ordered[index]?.storeId ?? 0)].join(
        ' | ',
      ),
    );
  t.diagnostic(
    `${Math.round(events())} events and ${databases.length} servers, ${ROUNDS} rounds of faults: lost ${lost.reduce((a, b) => a + b, 0)}, ` +
      `duplicates ${ledger.duplicates().length} (all explained), out of order ${seen.early.length} with the ordering resource, ` +
      `${seen.overtaken} without, of ${seen.arrivals} versions`,
  );
  assert.deepEqual(seen.early.slice(0, 5), [], 'a version arrived before the one before it was accepted');
  for (const { storeId } of ordered)
    for (const ordering of ['ordered', 'plain'])
      for (let at = 0; at < RESOURCES; at += 1)
        assert.equal(accepted.get(`/${ordering}/${storeId} ordered-${at}`), published.get(storeId));
});
