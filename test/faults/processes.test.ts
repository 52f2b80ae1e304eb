/**
 * The program in several processes with a supervisor: a process that is killed is started again and nothing is lost, a stop drains
 * all of them, and no process outlives the supervisor.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { listen } from '#db/pool.ts';
import { readUsedNumbers } from '#db/partitions.ts';
import { dayOf } from '#core/ids.ts';
import { createUser } from '#identity/accounts/users.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startProcess } from '../setup/command.ts';
import { addMember } from '#stores/store.ts';
import { cleanups } from '../setup/cleanups.ts';
import { testDatabase, databaseEnvOf } from '../setup/database.ts';
import { ended, isAlive } from '../setup/embedded-process.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';
import { startLoad, type Load } from '../setup/fleet/load.ts';
import { populate } from '../setup/fleet/population.ts';
import { startProgram, type Program } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { passwords } from '../setup/passwords.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

const ROOT = join(import.meta.dirname, '../..');
const UNDER_WAY = 500;
const LEASE_MS = 2_000;

const ends = cleanups();
const { sql, address } = await testDatabase(ends);
const receiver = await startReceiver(ends);
const arrived = new Map<string, number>();
receiver.answer(({ path, body }, response) => {
  receiver.got.length = 0;
  const delivery = `${path} ${(JSON.parse(body.toString()) as { id: string }).id}`;
  arrived.set(delivery, (arrived.get(delivery) ?? 0) + 1);
  response.writeHead(204).end();
});
const secretKey = randomBytes(32);
const { places, platformToken } = await populate(sql, { origins: [receiver.url], secretKey });

const childrenOf = async (pid: number): Promise<number[]> =>
  (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').filter(Boolean).map(Number);

type Running = Program & { origin: string; metrics: string };

async function environment(processes: number, env: Record<string, string> = {}) {
  const [port, metricsPort] = [await freePort(), await freePort()];
  return {
    origin: `http://127.0.0.1:${port}`,
    metrics: `http://127.0.0.1:${metricsPort}`,
    env: {
      ...databaseEnvOf(address),
      HALCYON_DATA: join(tmpdir(), 'halcyon-processes'),
      HALCYON_SECRET_KEY: secretKey.toString('hex'),
      LOG_LEVEL: 'warn',
      API_RATE_PER_SECOND: '0',
      OUTBOUND_ALLOW: '127.0.0.0/8',
      DELIVERY_LEASE_MS: String(LEASE_MS),
      DATABASE_CONNECTIONS: '6',
      PROCESSES: String(processes),
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      ...env,
    },
  };
}

/** Starts `halcyon serve`; it and its processes end with the test. */
async function start(t: TestContext, processes: number, given: Record<string, string> = {}): Promise<Running> {
  const { env, ...where } = await environment(processes, given);
  const program = await startProgram({ root: ROOT, args: ['serve'], env, ready: 'is ready.' });
  t.after(async () => {
    const children = program.isOver() ? [] : await childrenOf(program.pid);
    await program.end('SIGKILL');
    await Promise.all(children.map(ended));
  });
  return { ...program, ...where };
}

/** Returns the sum of a metric over its labels. */
async function metric({ metrics }: Running, name: string, labels = ''): Promise<number> {
  const exposed = await (await fetch(`${metrics}/metrics`)).text();
  const lines = exposed.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.filter((line) => line.includes(labels)).reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const untilWhole = (program: Running, processes: number): Promise<number> =>
  until(
    () => metric(program, 'halcyon_processes'),
    (count) => count === processes,
  );

/** Waits until as many workers share the shards. */
const untilShared = (workers: number): Promise<unknown> =>
  until(
    () => sql<{ shards: number }[]>`select count(*) as shards from shard_lease where owner is not null group by owner`,
    (rows) => rows.length === workers && rows.every(({ shards }) => shards >= Math.floor(256 / workers)),
  );

type Answer = { status: number; headers: Record<string, string | string[] | undefined> };

/** Sends a request over a connection of `agent`; without one over a new connection. */
function ask(url: string, agent?: Agent, token?: string): Promise<Answer> {
  const headers = { 'SERVICE-API-VERSION': '1', ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) };
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  get(url, { agent: agent ?? false, headers }, (response) => {
    response.resume().once('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers }));
  }).once('error', reject);
  return promise;
}

async function load(program: Running): Promise<Load> {
  const token = await platformToken(program.origin);
  const full = (accepted: number) => accepted - arrived.size > UNDER_WAY;
  const made = startLoad({
    places,
    token,
    origins: () => [program.origin],
    full,
    name: randomBytes(4).toString('hex'),
  });
  ends.after(async () => made.abandon());
  return made;
}

/** Posts over a new connection, which any of the processes accepts. */
async function post({ origin }: Running, token: string, path: string, body: object): Promise<number> {
  const response = await fetch(origin + path, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      'Content-Type': 'application/json',
      Authorization: `Bearer ${token}`,
      Connection: 'close',
    },
    body: JSON.stringify(body),
  });
  return response.status;
}

async function publish(
  program: Running,
  token: string,
  { storeId, id }: { storeId: number; id: string },
): Promise<void> {
  const event = { event: 'transaction/created', resource: { id, total_order: 1 } };
  assert.equal(await post(program, token, `/stores/${storeId}/events`, event), 201);
}

/** Ends the load and asserts that everything accepted has arrived and is recorded. */
async function settle(made: Load): Promise<void> {
  await made.stop();
  assert.deepEqual(made.unexpected, []);
  await until(
    async () => [...made.accepted].filter((delivery) => !arrived.has(delivery)).length,
    (missing) => missing === 0,
  );
  await until(
    () => sql`select from delivery limit 1`,
    ({ length }) => length === 0,
  );
  assert.ok(made.accepted.size > 100);
}

test('a killed process is started again, while the others serve and deliver everything', async (t) => {
  const program = await start(t, 3);
  const made = await load(program);
  let served = 0;
  for (let kill = 1; kill <= 4; kill += 1) {
    const [victim = 0] = await childrenOf(program.pid);
    process.kill(victim, 'SIGKILL');
    await ended(victim);
    for (let request = 0; request < 20; request += 1) {
      const { status } = await ask(`${program.origin}/health/live`);
      assert.equal(status, 200);
      served += 1;
    }
    await until(
      () => metric(program, 'halcyon_process_restarts_total'),
      (restarts) => restarts === kill,
    );
    await untilWhole(program, 3);
  }
  await settle(made);
  assert.equal(await program.end('SIGTERM'), 0, program.said());
  const twice = [...arrived.values()].filter((times) => times > 1).length;
  t.diagnostic(`${made.accepted.size} deliveries, ${twice} twice; ${served} requests while a process was down`);
});

test('all processes have the events of the operator, and deliver them', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-events-'));
  t.after(() => rm(folder, { recursive: true }));
  const parcel = {
    title: 'A parcel',
    description: 'A parcel.',
    events: { sent: { when: 'It is sent.', since: '1' } },
    schema: { required: ['id'] },
    example: { id: 1 },
  };
  const file = join(folder, 'events.json');
  await writeFile(file, JSON.stringify({ resources: { parcel } }));
  const program = await start(t, 2, { EVENTS_FILE: file });
  const token = await platformToken(program.origin);
  const [place] = places;
  const url = `${receiver.url}/parcels`;
  const webhook = { name: 'Parcels', format: 'json', encryption_key: 'k', url, event_resource: 'parcel' };
  assert.equal(await post(program, token, `/stores/${place?.storeId}/webhooks`, webhook), 201);
  const ids = Array.from({ length: 20 }, (_, n) => `parcel ${n}`);
  const published = ids.map((id) =>
    post(program, token, `/stores/${place?.storeId}/events`, { event: 'parcel/sent', resource: { id } }),
  );
  assert.deepEqual(new Set(await Promise.all(published)), new Set([201]));
  await until(
    async () => ids.filter((id) => !arrived.has(`/parcels ${id}`)),
    ({ length }) => length === 0,
  );
});

test('a stop lets all processes finish their deliveries and hand back their shards', async (t) => {
  const program = await start(t, 3);
  await untilShared(3);
  const children = await childrenOf(program.pid);
  const made = await load(program);
  await until(
    async () => made.accepted.size,
    (count) => count > 200,
  );
  arrived.clear();
  const stopped = made.stop();
  assert.equal(await program.end('SIGTERM'), 0, program.said());
  made.abandon();
  await stopped;
  assert.deepEqual(children.filter(isAlive), []);
  const [left] = await sql<{ shards: number; workers: number }[]>`
    select (select count(*) from shard_lease where owner is not null) as shards, (select count(*) from worker) as workers`;
  assert.deepEqual(left, { shards: 0, workers: 0 });
  assert.deepEqual(
    [...arrived.values()].filter((times) => times > 1),
    [],
  );
});

test('the processes stop by themselves when the supervisor is killed', async (t) => {
  const program = await start(t, 2);
  await untilShared(2);
  const children = await childrenOf(program.pid);
  assert.equal(children.length, 2);
  await program.end('SIGKILL');
  await Promise.all(children.map(ended));
  const [left] = await sql<{ shards: number }[]>`
    select count(*) as shards from shard_lease where owner is not null`;
  assert.equal(left?.shards, 0, 'the shards are handed back');
  await assert.rejects(ask(`${program.origin}/health/live`), /ECONNREFUSED/);
});

test('a process that does not stop is killed, and the exit code says so', async (t) => {
  const program = await start(t, 2, { DELIVERY_DRAIN_MS: '0' });
  const [frozen = 0] = await childrenOf(program.pid);
  process.kill(frozen, 'SIGSTOP');
  assert.equal(await program.end('SIGTERM'), 1, program.said());
  assert.match(program.said(), /halcyon: Some processes did not stop in time/);
  assert.equal(isAlive(frozen), false);
});

test('ctrl-C, which reaches every process, stops each once and then the embedded PostgreSQL', async (t) => {
  const place = await placeForFixture({ PROCESSES: '2' });
  t.after(place.remove);
  const fixture = await startFixture(place);
  const children = await childrenOf(fixture.pid);
  // The watchdog and the server of the embedded PostgreSQL have process groups of their own.
  assert.equal(children.length, 4);
  const started = fixture.output().length;
  process.kill(-fixture.pid, 'SIGINT');
  assert.equal(await fixture.end('SIGINT'), 0, fixture.output());
  await Promise.all(children.map(ended));
  // Before, a busy machine may have been too slow for a heartbeat.
  assert.doesNotMatch(fixture.output().slice(started), /"level":(?:40|50|60)/);
});

test('a process that ends before it serves ends the program with an error', async () => {
  const { env } = await environment(2);
  const { child, ended: exited } = startProcess(['serve'], env);
  const children = await until(
    () => childrenOf(child.pid ?? 0),
    ({ length }) => length === 2,
  );
  process.kill(children[0] ?? 0, 'SIGKILL');
  const { code, err } = await exited;
  assert.deepEqual([code, err], [1, 'halcyon: A process ended with signal SIGKILL while it started\n']);
  assert.deepEqual(children.filter(isAlive), []);
});

test('metrics are those of all processes, and no counter falls when one is killed', async (t) => {
  const program = await start(t, 2);
  await untilShared(2);
  await publish(program, await platformToken(program.origin), { storeId: places[0]?.storeId ?? 0, id: 'counted' });
  const REQUESTS = 10;
  for (let request = 0; request < REQUESTS; request += 1) await ask(`${program.origin}/health/live`);
  const counted = () => metric(program, 'halcyon_http_requests_total', '/health/live');
  await until(counted, (count) => count === REQUESTS);
  // On a busy machine a process may answer too late for one response, or suspend itself.
  await until(
    () => metric(program, 'halcyon_shards_held'),
    (count) => count === 256,
  );
  await until(
    () => metric(program, 'halcyon_database_connections_limit'),
    (count) => count === 12,
  );
  // Every process reads the same value, so it is not summed.
  const used = new Map(await readUsedNumbers(sql, dayOf(new Date()))).get('delivery') ?? 0;
  assert.ok(used > 0);
  await until(
    () => metric(program, 'halcyon_numbers_used_ratio', 'delivery'),
    (ratio) => ratio === used,
  );
  const [victim = 0] = await childrenOf(program.pid);
  process.kill(victim, 'SIGKILL');
  await until(
    async () => (await fetch(`${program.metrics}/health/ready`)).text(),
    (readiness) => readiness === '{"status":"unready","missing":["process"]}',
  );
  await until(
    () => metric(program, 'halcyon_process_restarts_total'),
    (count) => count === 1,
  );
  assert.equal(await counted(), REQUESTS, 'no counter falls');
  await untilWhole(program, 2);
  // The new process is ready when it has confirmed its lease.
  await until(
    () => ask(`${program.metrics}/health/ready`),
    ({ status }) => status === 200,
  );
  assert.equal(await program.end('SIGTERM'), 0, program.said());
});

test('a grant has one rate limit for all processes', async (t) => {
  const RATE = 20;
  const program = await start(t, 2, { API_RATE_PER_SECOND: String(RATE) });
  const now = new Date();
  const person = { email: 'owner@example.com', password: 'a long password', now };
  const { id: userId } = await createUser(sql, passwords, person);
  const storeId = places[0]?.storeId ?? 0;
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const app = await createClient(sql, { name: 'App', redirectUris: ['https://app.example.com/'], trusted: false, now });
  const grant = { clientId: app.client_id, userId, storeId, now };
  const { access_token: token } = await letAppIn({ sql, baseUrl: program.origin }, grant);
  // The kernel distributes these connections over both processes.
  const agents = Array.from({ length: 16 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  const startedMs = performance.now();
  let allowed = 0;
  // At once, so that they arrive faster than the bucket is filled also on a busy machine.
  await Promise.all(
    agents.map(async (agent) => {
      for (let request = 0; request < 20; request += 1) {
        const { status } = await ask(`${program.origin}/stores/${storeId}`, agent, token);
        if (status === 200) allowed += 1;
      }
    }),
  );
  const ofOne = 2 * RATE + (RATE * (performance.now() - startedMs)) / 1_000;
  for (const agent of agents) agent.destroy();
  // On a slow machine the bucket overflows between two requests, so that fewer than it has are allowed.
  assert.ok(allowed >= 2 * RATE && allowed < 1.5 * ofOne, `${allowed} requests, and one bucket has ${ofOne}`);
  assert.equal(await program.end('SIGTERM'), 0, program.said());
});

test('deliveries that another process has to send reach it without NOTIFY', async (t) => {
  const program = await start(t, 2);
  await untilShared(2);
  const token = await platformToken(program.origin);
  let notifications = 0;
  const listening = await listen(
    sql,
    { halcyon_work: () => void (notifications += 1) },
    { onMissed: () => assert.fail('the connection broke'), silenceMs: 60_000, pace: NEVER_QUIET },
  );
  ends.after(() => listening.stop());
  let round = 0;
  /** Publishes to stores of both processes, and returns how many notifications were sent meanwhile. */
  const publishAll = async (): Promise<number> => {
    round += 1;
    const before = notifications;
    const id = `direct-${round}`;
    for (const { storeId, paths } of places) {
      await publish(program, token, { storeId, id });
      await until(
        async () => paths.every((path) => arrived.has(`${path} ${id}`)),
        (isThere) => isThere,
      );
    }
    return notifications - before;
  };
  // Until its next heartbeat a process does not know which shards the other has taken.
  await until(publishAll, (sent) => sent === 0);
  await sql`select pg_notify('halcyon_work', '')`;
  await until(
    async () => notifications,
    (count) => count > 0,
  );
  assert.equal(await program.end('SIGTERM'), 0, program.said());
});
