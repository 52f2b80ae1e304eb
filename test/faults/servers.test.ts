/**
 * Stores on three PostgreSQL servers and four processes. While one server is down, the stores of the others publish, are delivered, and
 * their people sign in; the stores of that server get a 503 that names it; and when it returns, everything resumes by itself.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { LOAD } from '../setup/fleet/load.ts';
import { openServer } from '../setup/fleet/server.ts';
import { openPair } from '../setup/fleet/standby.ts';
import { until } from '../setup/until.ts';
import { passwords } from '../setup/passwords.ts';

const RANGES = [
  { first: 85, last: 169 },
  { first: 170, last: 255 },
] as const;
const NAMES = ['home', 'one', 'two'];
/** How long publishing is measured, and how often an event is due. */
const MEASURED_MS = 3_000;
const EVERY_MS = 40;
const SOME = 100;
/** The bound of a request to a server that hangs. */
const REFUSED_MS = 5_000;
/** Connections after the return of a server are counted for this time. */
const RETURN_MS = 5_000;
const PROCESSES = 4;
/** The pool of each process, and its other connections. */
const CONNECTIONS = 8 + 5;
const REFUSED = /request|is not available|cannot reach its database/;
/** Beside one for each refused request. */
const LOG_LINES_PER_SECOND = 8;

const ends = cleanups();
const log = { settings: { log_connections: 'on' } };
const home = await openServer(ends, log);
const one = await openServer(ends, log);
const two = await openPair(ends);
const fleet = await openFleet({
  ends,
  server: home,
  others: [
    { server: one, range: RANGES[0] },
    { server: two, range: RANGES[1] },
  ],
  slots: 24,
  leaseMs: 4_000,
});
const { ledger, sql, places } = fleet;
const publishers = [await fleet.startPublisher(), await fleet.startPublisher()];
const workers = [await fleet.startWorker(), await fleet.startWorker()];
const token = await fleet.token();
const matrix: string[][] = [];

const now = new Date();
const person = { email: 'ada@example.com', password: PASSWORD, now };
const { id: userId } = await createUser(sql, passwords, person);
for (const [place] of places) await addMember(sql, { storeId: place?.storeId ?? 0, userId, role: 'owner', now });

const storeOf = (database: number): number => places[database]?.[0]?.storeId ?? assert.fail();
const deliveredIn = (database: number): number => ledger.deliveredOf(database === 0 ? LOAD : `${LOAD}${database}`);
const p95 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)] ?? Number.NaN;

type Response = { status: number; message: string; ms: number };
let published = 0;

/** Publishes one event without a subscriber. */
async function publish(database: number): Promise<Response> {
  const origins = fleet.origins();
  published += 1;
  const startedMs = performance.now();
  const response = await fetch(`${origins[published % origins.length]}/stores/${storeOf(database)}/events`, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
    },
    body: JSON.stringify({ event: 'customer/created', resource: { id: `probe-${published}` } }),
  });
  const message = await response.text();
  return { status: response.status, message, ms: performance.now() - startedMs };
}

/** Publishes at a steady rate to stores of these databases, and returns the responses. */
async function publishFor(ms: number, databases: readonly number[]): Promise<Response[]> {
  const endMs = performance.now() + ms;
  const responses: Promise<Response>[] = [];
  for (let n = 0; performance.now() < endMs; n += 1) {
    responses.push(publish(databases[n % databases.length] ?? 0));
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
  return Promise.all(responses);
}

/** Waits until more deliveries of each database have arrived. */
async function untilDelivered(databases: readonly number[]): Promise<void> {
  const before = databases.map(deliveredIn);
  await until(
    async () => databases.map((database, index) => deliveredIn(database) - (before[index] ?? 0)),
    (counts) => counts.every((count) => count > SOME),
  );
}

async function assertSignsIn(database: number): Promise<void> {
  for (const origin of fleet.origins()) {
    const browser = createBrowser(origin);
    const signedIn = await browser.signIn(person.email);
    assert.equal(signedIn.status, 303, signedIn.text);
    for (const path of ['/account', `/stores/${storeOf(database)}/webhooks`]) {
      const page = await browser.open(path, { Accept: 'text/html' });
      assert.equal(page.status, 200, `${path}: ${page.text.slice(0, 500)}`);
    }
  }
}

const everyProcess = [...publishers, ...workers];

/** Returns the number of log lines by message, without those that each refused request has. */
function lines(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [, message = ''] of everyProcess.flatMap(({ said }) => [...said().matchAll(/"msg":"([^"]*)"/g)]))
    if (!REFUSED.test(message)) counts.set(message, (counts.get(message) ?? 0) + 1);
  return counts;
}

/** Returns a function that asserts that the processes have logged little since. */
function watchLog(t: TestContext): () => number {
  const [before, startedMs] = [lines(), performance.now()];
  return () => {
    const since = [...lines()].map(([message, count]) => ({ message, n: count - (before.get(message) ?? 0) }));
    const perSecond = since.reduce((sum, { n }) => sum + n, 0) / ((performance.now() - startedMs) / 1_000);
    const most = since.toSorted((a, b) => b.n - a.n).slice(0, 5);
    t.diagnostic(`logged most: ${most.map(({ message, n }) => `${n} × ${message}`).join('; ')}`);
    assert.ok(perSecond < LOG_LINES_PER_SECOND * PROCESSES, `${perSecond} log lines a second`);
    return perSecond;
  };
}

const fault = (what: string): void => workers.forEach(({ life }) => ledger.fault(life, what));

/** Waits until each process refuses requests of a store in the database, and returns the slowest of the last responses. */
async function untilRefused(database: number): Promise<Response> {
  const responses = await until(
    () => Promise.all(fleet.origins().map(() => publish(database))),
    (all) => all.every(({ status }) => status === 503),
  );
  return responses.toSorted((a, b) => b.ms - a.ms)[0] ?? assert.fail();
}

type Failure = {
  name: string;
  down: number;
  fail: () => Promise<void>;
  heal: () => Promise<void>;
  /** Runs while the server is down. */
  meanwhile?: () => Promise<void>;
};

/** One server that is not the home database fails and returns. */
async function failApart(t: TestContext, { name, down, fail, heal, meanwhile = async () => {} }: Failure) {
  const others = [0, 1, 2].filter((database) => database !== down);
  const before = await publishFor(MEASURED_MS, others);
  const logged = watchLog(t);
  fault(name);
  let isDown = true;
  t.after(async () => {
    if (isDown) await heal();
  });
  await fail();
  const during = await publishFor(MEASURED_MS, others);
  assert.deepEqual(new Set(during.map(({ status }) => status)), new Set([201]), 'stores of other servers publish');
  const refused = await untilRefused(down);
  const { first, last } = RANGES[down - 1] ?? assert.fail();
  assert.match(refused.message, new RegExp(`number ${down}, with the shards ${first}-${last}`));
  const again = await publish(down);
  assert.equal(again.status, 503);
  await untilDelivered(others);
  for (const database of others) await assertSignsIn(database);
  await meanwhile();
  fault(name);
  const perSecond = logged();
  isDown = false;
  await heal();
  fault(name);
  const healedMs = performance.now();
  await until(
    () => publish(down),
    ({ status }) => status === 201,
  );
  await untilDelivered([down]);
  const resumedMs = performance.now() - healedMs;
  const [early, late] = [before, during].map((responses) => p95(responses.map(({ ms }) => ms)));
  matrix.push([
    `${NAMES[down]} ${name}`,
    `${early?.toFixed(0)} → ${late?.toFixed(0)} ms`,
    'yes',
    'yes',
    `503 in ${again.ms.toFixed(0)} ms`,
    `${resumedMs.toFixed(0)} ms`,
    perSecond.toFixed(1),
  ]);
  t.diagnostic(matrix.at(-1)?.join(' | ') ?? '');
  assert.ok((late ?? Infinity) < 3 * (early ?? 0) + 200, 'publishing to the others is as fast as before');
  assert.ok(again.ms < REFUSED_MS, 'a request to a server that is down gets its response soon');
}

/** Returns how many connections a server accepts after its return. */
async function connectionsAfter(server: typeof one, heal: () => Promise<void>): Promise<number> {
  const before = await server.accepted();
  await heal();
  await publishFor(RETURN_MS, [0]);
  return (await server.accepted()) - before;
}

/** While server 1 is down, processes stop in time and others start without it. */
async function replaceProcesses(): Promise<void> {
  assert.equal(await publishers.shift()?.end('SIGTERM'), 0);
  const worker = workers.shift();
  assert.equal(await worker?.end('SIGTERM'), 0, worker?.said() ?? '');
  publishers.push(await fleet.startPublisher());
  workers.push(await fleet.startWorker());
  everyProcess.push(...publishers.slice(-1), ...workers.slice(-1));
  await untilDelivered([0, 2]);
  for (const { status } of await publishFor(MEASURED_MS, [0, 2])) assert.equal(status, 201);
  assert.equal((await publish(1)).status, 503);
}

test('a server that is killed takes only its stores with it', async (t) => {
  await fleet.startLoad();
  await untilDelivered([0, 1, 2]);
  let connections = 0;
  await failApart(t, {
    name: 'killed',
    down: 1,
    fail: one.kill,
    heal: async () => void (connections = await connectionsAfter(one, one.start)),
    meanwhile: replaceProcesses,
  });
  t.diagnostic(`${connections} connections in ${RETURN_MS / 1_000} s after its return`);
  assert.ok(connections <= 2 * PROCESSES * CONNECTIONS, `${connections} connections after the return`);
});

test('a server that hangs takes only its stores with it', async (t) => {
  let connections = 0;
  await failApart(t, {
    name: 'frozen',
    down: 1,
    fail: one.freeze,
    heal: async () => void (connections = await connectionsAfter(one, one.thaw)),
    meanwhile: replaceProcesses,
  });
  t.diagnostic(`${connections} connections in ${RETURN_MS / 1_000} s after its return`);
  assert.ok(connections <= 2 * PROCESSES * CONNECTIONS, `${connections} connections after the return`);
});

test('a server whose standby is promoted continues with the standby', async (t) => {
  await failApart(t, { name: 'promoted', down: 2, fail: two.kill, heal: two.start });
});

for (const [name, fail, heal] of [
  ['killed', home.kill, home.start],
  ['frozen', home.freeze, home.thaw],
] as const)
  test(`while the home database is ${name}, the other databases are delivered`, async (t) => {
    const logged = watchLog(t);
    fault(name);
    const before = [1, 2].map(deliveredIn);
    await fail();
    await until(
      async () => [1, 2].map((database, index) => deliveredIn(database) - (before[index] ?? 0)),
      (counts) => counts.every((count) => count > SOME),
    );
    const refused = await untilRefused(1);
    fault(name);
    const perSecond = logged();
    await heal();
    fault(name);
    const healedMs = performance.now();
    for (const database of [0, 1, 2])
      await until(
        () => publish(database),
        ({ status }) => status === 201,
      );
    await untilDelivered([0, 1, 2]);
    const resumedMs = performance.now() - healedMs;
    matrix.push([
      `home ${name}`,
      `503 in ${refused.ms.toFixed(0)} ms`,
      'yes',
      'no',
      '503',
      `${resumedMs.toFixed(0)} ms`,
      perSecond.toFixed(1),
    ]);
    t.diagnostic(matrix.at(-1)?.join(' | ') ?? '');
  });

test('no event was lost, and the matrix of failures and promises', async (t) => {
  await fleet.settle(t);
  t.diagnostic(
    'failure | publish to the others, p95 | others delivered | sign in | its stores | resumed | log lines a second',
  );
  for (const row of matrix) t.diagnostic(row.join(' | '));
  for (const process of [...workers, ...publishers]) assert.equal(await process.end('SIGTERM'), 0, process.said());
});
