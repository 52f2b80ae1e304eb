/**
 * What loading history costs: versions a second by `halcyon load`, as a process of its own, against the program as the README starts it,
 * and how long live events of another store take to a receiver before, meanwhile and after. `--external`: `serve` with a PostgreSQL beside it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { startLiveLoad } from './setup/live-load.ts';
import type { Latency } from './setup/receiver-process.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { startServer, type RunningServer } from './setup/server.ts';
import { spread, table } from './setup/table.ts';

const numbers = { rounds: 3, resources: 60_000, bytes: 500, perSecond: 100, seconds: 10 };
const MAIN = join(import.meta.dirname, '../src/main.ts');
const LINES_AT_ONCE = 1_000;

/** Writes lines of that many orders, customers and subscriptions with dates, whose ids begin with `from`. */
async function writeLines(path: string, from: number, { resources, bytes }: typeof numbers): Promise<void> {
  const file = await open(path, 'w');
  const types = ['transaction', 'customer', 'subscription'];
  for (let at = 0; at < resources; at += LINES_AT_ONCE) {
    const lines = Array.from({ length: Math.min(LINES_AT_ONCE, resources - at) }, (_, index) => {
      const resource = { id: from + at + index, date_modified: '2024-02-01T09:00:00Z', note: 'x'.repeat(bytes) };
      return JSON.stringify({ type: types[index % types.length], resource });
    });
    await file.write(`${lines.join('\n')}\n`);
  }
  await file.close();
}

type Target = { server: RunningServer; storeId: number; credentials: { client_id: string; client_secret: string } };

/** Starts the command; resolves with its seconds when it has ended. */
async function load(path: string, { server, storeId, credentials }: Target): Promise<number> {
  const startedMs = performance.now();
  const args = [MAIN, 'load', path, '--url', server.origin, '--store', String(storeId), '--json'];
  const { client_id: HALCYON_CLIENT_ID, client_secret: HALCYON_CLIENT_SECRET } = credentials;
  const env = { ...process.env, HALCYON_CLIENT_ID, HALCYON_CLIENT_SECRET };
  const [code] = (await once(
    spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] }),
    'exit',
  )) as [number | null];
  if (code !== 0) throw new Error(`halcyon load ended with ${code}`);
  return (performance.now() - startedMs) / 1_000;
}

async function folderOf(defer: Defer): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-load-'));
  defer(() => rm(folder, { recursive: true }));
  return folder;
}

await bench({ numbers, flags: ['external'] }, async (options, defer) => {
  const { rounds, resources, perSecond, seconds } = options;
  const server = await startServer(defer, options.external ? 'external' : 'embedded', {});
  const { sql } = server;
  const now = new Date();
  const store = { name: 'Store', domain: 'store.example.com', email: 'a@example.com', timeZone: 'UTC', now };
  const [loading, living] = [await createStore(sql, store), await createStore(sql, store)];
  const credentials = await createClient(sql, { name: 'Loader', redirectUris: [], trusted: true, now });
  const live = await startLiveLoad(defer, server, living.id);
  const path = join(await folderOf(defer), 'history.jsonl');
  heading(`Loading ${resources} versions of ${options.bytes} bytes beside ${perSecond} live events a second`);
  await live(perSecond, seconds);
  const all: { before: Latency; during: Latency; after: Latency; seconds: number }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await writeLines(path, 1 + round * resources, options);
    const before = await live(perSecond, seconds);
    const loaded = load(path, { server, storeId: loading.id, credentials });
    const during = await live(perSecond, seconds);
    all.push({ before, during, seconds: await loaded, after: await live(perSecond, seconds) });
  }
  const rate = all.map((round) => resources / round.seconds);
  print(
    `${spread(rate)} versions a second: a million takes ${spread(
      rate.map((each) => 1e6 / each / 60),
      1,
    )} min`,
  );
  table(
    ['live events, ms', 'p50', 'p95', 'p99'],
    (['before', 'during', 'after'] as const).map((phase) => {
      const spreadOf = (share: 'p50' | 'p95' | 'p99'): string =>
        spread(
          all.map((round) => round[phase][share]),
          1,
        );
      return [phase, spreadOf('p50'), spreadOf('p95'), spreadOf('p99')];
    }),
  );
});
