/**
 * The drill of docs/operating.md, "Back up and restore", with its own commands: a dump under load, restored elsewhere and used
 * from then on. All data of the dump is there, events accepted afterwards arrive, and though event ids repeat,
 * no `webhook-id` repeats with another content.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { migrate } from '#db/migrate.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { startDebianServer } from '../setup/debian-server.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startLoad, type Load } from '../setup/fleet/load.ts';
import { populate } from '../setup/fleet/population.ts';
import { startProgram, type Program } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { databaseEnvOf } from '../setup/database.ts';
import { SEED, seeded } from '../setup/seed.ts';

const random = seeded(SEED);

const ROOT = join(import.meta.dirname, '../..');
/** Events before the dump, after it and after the restore: two blocks of ids and more, so that those of the second repeat. */
const EVENTS = 2_500;
const WEBHOOKS_PER_STORE = 3;
const UNDER_WAY = 1_500;
const PATIENCE_MS = 120_000;
/** Of a hundred first attempts this many are refused, so that some deliveries are always pending. */
const REFUSED_PERCENT = 5;
const RESTORED = 'halcyon_restored';

const ends = cleanups();
const debian = await startDebianServer(ends);
const folder = await mkdtemp(join(tmpdir(), 'halcyon-restore-'));
ends.after(() => rm(folder, { recursive: true, force: true }));
const admin = openPool(debian.address, { connections: 1, applicationName: 'test' });
ends.after(() => admin.end({ timeout: 0 }));
await admin`create database halcyon`;

const addressOf = (database: string) => ({ ...debian.address, database });
function poolOf(database: string): Sql {
  const pool = openPool(addressOf(database), { connections: 4, applicationName: 'test' });
  ends.after(() => pool.end({ timeout: 0 }));
  return pool;
}
const old = poolOf('halcyon');
await migrate(old, join(ROOT, 'migrations'));
await maintainPartitions(old, { now: new Date(), retentionDays: 30, daysAhead: 3 });

/** The contents under each webhook-id, and the webhook-ids of each delivery, which is a path and the id of a resource. */
const contents = new Map<string, Set<string>>();
const arrivals = new Map<string, { webhookIds: Set<string>; lastMs: number }>();
const receiver = await startReceiver(ends);
receiver.answer(({ path, headers, body, atMs }, response) => {
  receiver.got.length = 0;
  const isRefused = headers['service-webhook-attempt'] === '1' && random() * 100 < REFUSED_PERCENT;
  response.writeHead(isRefused ? 500 : 204).end();
  const webhookId = String(headers['webhook-id']);
  const hash = createHash('sha256').update(body).digest('hex');
  contents.set(webhookId, (contents.get(webhookId) ?? new Set()).add(hash));
  const delivery = `${path} ${(JSON.parse(body.toString()) as { id: string }).id}`;
  const { webhookIds } = arrivals.get(delivery) ?? { webhookIds: new Set() };
  arrivals.set(delivery, { webhookIds: webhookIds.add(webhookId), lastMs: atMs });
});

const secretKey = randomBytes(32);
const { places, platformToken } = await populate(old, { origins: [receiver.url], secretKey });
const common = {
  HALCYON_DATA: join(folder, 'data'),
  HALCYON_SECRET_KEY: secretKey.toString('hex'),
  LOG_LEVEL: 'warn',
  API_RATE_PER_SECOND: '0',
  OUTBOUND_ALLOW: '127.0.0.0/8',
};
const running: Program[] = [];
ends.after(async () => void (await Promise.all(running.map((program) => program.end('SIGKILL')))));

/** A publisher and a worker over the database; returns the address to publish to. */
async function startAll(database: string): Promise<string> {
  const port = await freePort();
  const env = {
    ...common,
    ...databaseEnvOf(addressOf(database)),
    PORT: String(port),
    BASE_URL: 'http://api.example.com',
  };
  const start = async (args: string[], ready: 'is ready.' | 'is delivering.') =>
    void running.push(await startProgram({ root: ROOT, args, env, ready }));
  await start(['serve', '--no-deliver'], 'is ready.');
  await start(['deliver'], 'is delivering.');
  return `http://127.0.0.1:${port}`;
}
async function stopAll(signal: NodeJS.Signals): Promise<void> {
  await Promise.all(running.splice(0).map((program) => program.end(signal)));
}
async function loadOn(origin: string, name: string): Promise<Load> {
  const token = await platformToken(origin);
  const full = (accepted: number) => accepted - arrivals.size > UNDER_WAY;
  return startLoad({ places, token, origins: () => [origin], full, name });
}
const untilAccepted = (load: Load, events: number) =>
  until(
    async () => load.accepted.size,
    (count) => count >= events * WEBHOOKS_PER_STORE,
    PATIENCE_MS,
  );

const manual = await readFile(join(ROOT, 'docs/operating.md'), 'utf8');
const section = /^## Back up and restore\n([^]*?)^## /m.exec(manual)?.[1] ?? '';
/** The command blocks of the manual: for the dump, and for the restore. */
const blocks = [...section.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block.trim().split('\n'));
const blockWith = (word: string): string[] => blocks.find((lines) => lines.join('\n').includes(word)) ?? [];
const [dumping, restoring] = [blockWith('-- backup'), blockWith('pg_restore')];

/** Each as an operator types it, with Debian's programs. */
async function run(commands: readonly string[]): Promise<void> {
  assert.ok(commands.length > 0);
  const { directory, user } = debian.address;
  const [program] = debian.client('pg_dump', 'postgres', []);
  const env = {
    ...common,
    ...databaseEnvOf(addressOf('halcyon')),
    PGHOST: directory,
    PGUSER: user,
    PATH: `${join(program, '..')}:${process.env['PATH'] ?? ''}`,
    HOME: folder,
    LC_ALL: 'C.UTF-8',
  };
  for (const command of commands) {
    // Without npm, which would check the dependencies of the tree first.
    const typed = command.replace('npm run halcyon --', `'${process.execPath}' '${join(ROOT, 'src/main.ts')}'`);
    await promisify(execFile)('/bin/bash', ['-ec', typed], { cwd: folder, env });
  }
}

async function deliveriesIn(sql: Sql): Promise<Set<string>> {
  const rows = await sql<{ url: string; id: string }[]>`
    select w.url, e.resource_id as id from event e join webhook w on w.shard = e.shard and w.store_id = e.store_id
    where e.resource_type = 'transaction'`;
  return new Set(rows.map(({ url, id }) => `${new URL(url).pathname} ${id}`));
}
async function pendingIn(sql: Sql): Promise<string[]> {
  const rows = await sql<{ url: string; id: string }[]>`
    select w.url, e.resource_id as id from delivery d
    join event e on e.shard = d.shard and e.id = d.event_id
    join webhook w on w.shard = d.shard and w.id = d.webhook_id`;
  return rows.map(({ url, id }) => `${new URL(url).pathname} ${id}`);
}
async function resourcesByEvent(sql: Sql): Promise<Map<number, string>> {
  const rows = await sql<{ id: number; resource: string }[]>`
    select id, resource_id as resource from event where resource_type = 'transaction'`;
  return new Map(rows.map(({ id, resource }) => [id, resource]));
}

test('a dump taken under load is restored and used, and no webhook-id repeats', async (t) => {
  const before = await loadOn(await startAll('halcyon'), 'before');
  await untilAccepted(before, EVENTS);
  const acceptedBefore = [...before.accepted];
  await run(dumping);
  const during = before.accepted.size - acceptedBefore.length;
  await untilAccepted(before, (acceptedBefore.length + during) / WEBHOOKS_PER_STORE + EVENTS);
  await before.stop();
  await stopAll('SIGTERM');
  // A new process allocates a new block of event numbers, which the restored database allocates again.
  const last = await loadOn(await startAll('halcyon'), 'last');
  await untilAccepted(last, EVENTS);
  await stopAll('SIGKILL');
  last.abandon();
  await last.stop();
  assert.deepEqual([...before.unexpected, ...last.unexpected], []);

  await run(restoring);
  const restored = poolOf(RESTORED);
  const [kept, pending] = [await deliveriesIn(restored), await pendingIn(restored)];
  assert.deepEqual(
    acceptedBefore.filter((delivery) => !kept.has(delivery)).slice(0, 5),
    [],
    'the dump has everything from before it',
  );
  const lost = [...before.accepted, ...last.accepted].filter((delivery) => !kept.has(delivery));
  const known = pending.filter((delivery) => arrivals.has(delivery));
  t.diagnostic(`${acceptedBefore.length} deliveries before the dump, ${during} during it, ${lost.length} lost with it`);
  t.diagnostic(`${pending.length} pending in the dump, ${known.length} of which had arrived since`);
  assert.ok(lost.length > 0 && pending.length > 0 && known.length > 0, 'the dump is of the middle');

  const restoredMs = performance.now();
  const after = await loadOn(await startAll(RESTORED), 'after');
  await untilAccepted(after, EVENTS);
  await after.stop();
  assert.deepEqual(after.unexpected, []);
  const isMissing = (delivery: string) => (arrivals.get(delivery)?.lastMs ?? 0) < restoredMs;
  const missing = async () => [...after.accepted, ...pending].filter(isMissing).slice(0, 5);
  await until(missing, (deliveries) => deliveries.length === 0, PATIENCE_MS);

  const [were, are] = [await resourcesByEvent(old), await resourcesByEvent(restored)];
  const again = [...are].filter(([id, resource]) => were.has(id) && were.get(id) !== resource);
  t.diagnostic(`${again.length} events have the number of another one that is lost`);
  assert.ok(again.length > 0);
  assert.deepEqual(
    [...contents].filter(([, hashes]) => hashes.size > 1).slice(0, 5),
    [],
    'one webhook-id, one content',
  );
  const renamed = known.filter((delivery) => arrivals.get(delivery)?.webhookIds.size !== 1);
  assert.deepEqual(renamed.slice(0, 5), [], 'a repeated delivery has the same webhook-id');
});
