/** `halcyon relay`: each row of an outbox table is published once, in order, or is in the table of dead letters. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { createPublisher } from '../../packages/publisher/src/publisher.ts';
import { openSource } from '../../src/cli/relay/relay-command.ts';
import { Relay } from '../../src/cli/relay/relay-run.ts';
import { readTable } from '../../src/cli/relay/relay-source.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { printed, runCommand, startCommand, startProcess, untilEnded, type Ended } from '../setup/command.ts';
import { emptyDatabase, urlOf } from '../setup/database.ts';
import { readExposition } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { startGate, type Fate } from '../setup/publish-gate.ts';
import { until } from '../setup/until.ts';

const TABLE = 'halcyon_outbox';
const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });
const platform = await createClient(app.sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });
const gate = await startGate(app.baseUrl, ends);
const shop = await emptyDatabase();
const folder = await mkdtemp(join(tmpdir(), 'halcyon-relay-'));
after(() => rm(folder, { recursive: true }));

const env = {
  HALCYON_URL: gate.url,
  HALCYON_CLIENT_ID: platform.client_id,
  HALCYON_CLIENT_SECRET: platform.client_secret,
  HALCYON_DATA: join(folder, 'none'),
  HALCYON_RELAY_FROM: urlOf(shop.address),
};
const defined = await runCommand(['relay', '--init', 'postgres'], env);
await shop.sql.unsafe(defined.out);

const once = (...args: string[]): Promise<Ended> => runCommand(['relay', '--once', ...args], env);
const start = (...args: string[]) => startCommand(['relay', ...args], env);

const newStore = async (): Promise<number> => {
  const store = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now: app.clock.now() };
  return (await createStore(app.sql, store)).id;
};
let storeId = 0;
beforeEach(async () => {
  gate.release();
  gate.posts = [];
  await shop.sql`truncate halcyon_outbox, halcyon_outbox_dead`;
  storeId = await newStore();
});

const CREATED = 'transaction/created';
async function insert(resource: object | string, { event = CREATED, store = storeId } = {}): Promise<void> {
  const text = typeof resource === 'string' ? resource : JSON.stringify(resource);
  await shop.sql`insert into halcyon_outbox (store_id, event, resource) values (${store}, ${event}, ${text})`;
}
/** Returns the ids of the resources, in the order in which they were published. */
async function published(store = storeId): Promise<string[]> {
  const rows = await app.sql<{ id: string }[]>`
    select resource_id as id from event where store_id = ${store} order by event.id`;
  return rows.map(({ id }) => id);
}
const waiting = async (): Promise<{ id: string; isMarked: boolean }[]> => [
  ...(await shop.sql<{ id: string; isMarked: boolean }[]>`
    select resource::json ->> 'id' as id, date_attempted is not null as "isMarked" from halcyon_outbox
    order by halcyon_outbox.id`),
];
const dead = async (): Promise<{ resource: string; reason: string }[]> => [
  ...(await shop.sql<{ resource: string; reason: string }[]>`
    select resource, reason from halcyon_outbox_dead order by dead_id`),
];

/** Relays once, with a publisher for which waits pass at once. */
async function relayQuickly({ batch = 500 } = {}) {
  let passedMs = 0;
  const wait = async (ms: number) => void (passedMs += ms);
  const publisher = createPublisher({
    baseUrl: gate.url,
    clientId: platform.client_id,
    clientSecret: platform.client_secret,
    deadlineMs: 10_000,
    clock: { nowMs: () => performance.now() + passedMs, wait, random: () => 0.5 },
  });
  const warnings: string[] = [];
  const relay = new Relay({
    open: () => openSource(env.HALCYON_RELAY_FROM, readTable(TABLE)),
    publisher,
    batch,
    once: true,
    stop: new AbortController().signal,
    clock: app.clock,
    random: () => 0.5,
    warn: (text: string) => void warnings.push(text),
    say: () => {},
  });
  const failure = await relay.run().then(
    () => undefined,
    (error: unknown) => error as Error & { exitCode: number },
  );
  await publisher.close();
  return { relay, warnings, exitCode: failure?.exitCode ?? 0 };
}

test('rows are published in the order of their ids, with numbers as they are written, and deleted', async () => {
  const other = await newStore();
  await insert('{"id": 1,\n "total": 12.50, "big": 9007199254740993}');
  for (let id = 2; id <= 40; id += 1) await insert({ id }, { store: id % 2 === 0 ? other : storeId });
  await insert({ id: 1, total: 1 }, { event: 'transaction/modified' });
  const { code, out, err } = await once('--batch', '7', '--json');
  assert.deepEqual([code, err, JSON.parse(out)], [0, '', { published: 41, refused: 0 }]);
  const odd = Array.from({ length: 20 }, (_, n) => String(2 * n + 1));
  assert.deepEqual(await published(), [...odd, '1']);
  assert.deepEqual(
    await published(other),
    odd.map((id) => String(Number(id) + 1)),
  );
  assert.deepEqual(await waiting(), []);
  const [first] = await app.sql<{ body: string }[]>`
    select body from event where store_id = ${storeId} order by event.id limit 1`;
  assert.match(first?.body ?? '', /"total":\s*12\.50,\s*"big":\s*9007199254740993/);
});

test('large rows are published in several requests, one after the other', async () => {
  for (let id = 1; id <= 10; id += 1) await insert({ id, text: 'x'.repeat(250 * 1024) });
  assert.equal((await once()).code, 0);
  assert.deepEqual(
    gate.posts.map(({ events }) => events),
    [8, 2],
  );
  assert.equal((await published()).length, 10);
});

test('a round reads the first rows up to 2 MiB, in which a resource that is too large counts as nothing', async () => {
  const source = await openSource(env.HALCYON_RELAY_FROM, readTable(TABLE));
  assert.ok(source !== undefined);
  const sizesRead = async (...sizes: number[]) => {
    await shop.sql`truncate halcyon_outbox`;
    for (const size of sizes) await insert('x'.repeat(size));
    const rows = await source.read(500, []);
    return rows.map(({ resource }) => resource?.length ?? null);
  };
  const MIB = 1024 * 1024;
  try {
    assert.deepEqual(await sizesRead(MIB, MIB, 1, 1), [MIB, MIB]);
    assert.deepEqual(await sizesRead(MIB + 1, MIB, MIB + 1, MIB - 1, 1, 1), [null, MIB, null, MIB - 1, 1]);
    await shop.sql`update halcyon_outbox set store_id = 2 where id = (select min(id) from halcyon_outbox)`;
    const others = await source.read(2, ['2']);
    assert.deepEqual(
      others.map(({ resource }) => resource?.length ?? null),
      [MIB, null],
    );
  } finally {
    await source.close();
  }
});

test('the metrics count the first 10,000 rows, and have the age of the oldest of them', async () => {
  const source = await openSource(env.HALCYON_RELAY_FROM, readTable(TABLE));
  assert.ok(source !== undefined);
  try {
    assert.deepEqual(await source.lag(), { rows: 0, oldestSeconds: 0 });
    await shop.sql`
      insert into halcyon_outbox (store_id, event, resource, date_created)
      select 1, 'x', '', now() - make_interval(hours => case n when 1 then 1 when 10001 then 2 else 0 end)
      from generate_series(1, 10001) as n order by n`;
    const { rows, oldestSeconds } = await source.lag();
    assert.equal(rows, 10_000);
    assert.ok(oldestSeconds >= 3_600 && oldestSeconds < 7_200, String(oldestSeconds));
  } finally {
    await source.close();
  }
});

test('what Halcyon refuses is moved to the dead letters with its reason, and later rows are published', async () => {
  const refused: readonly (readonly [resource: string, given: { event?: string; store?: number }, reason: RegExp])[] = [
    ['{"id":2}', { event: 'transaction/made' }, /must be one of transaction\/created/],
    ['{"id":3', {}, /not JSON/],
    ['{"id":4},"event":"transaction/voided"', {}, /not JSON/],
    ['{"id":5}', { store: 999_999_999 }, /999999999.*404/],
    ['{"id":6}', { store: -1 }, /-1/],
    [JSON.stringify({ id: 7, text: 'x'.repeat(1024 * 1024) }), {}, /larger than 1 MiB/],
    ['[]', {}, /resource/],
  ];
  await insert({ id: 1 });
  for (const [resource, given] of refused) await insert(resource, given);
  await insert({ id: 8 });
  const { code, err } = await once();
  assert.equal(code, 2, err);
  assert.deepEqual(await published(), ['1', '8']);
  assert.equal((await shop.sql`select from halcyon_outbox`).length, 0);
  const letters = await dead();
  assert.deepEqual(
    letters.map(({ resource }) => resource).toSorted(),
    refused.map(([resource]) => resource).toSorted(),
  );
  for (const [resource, , reason] of refused) {
    const found = letters.find((letter) => letter.resource === resource)?.reason ?? '';
    assert.match(found, reason);
    assert.ok(err.includes(found), err);
  }
  assert.equal((await once()).code, 0, 'a dead letter is reported once');
});

test('while Halcyon is not available nothing is lost, no row of the store overtakes, and other stores go on', async () => {
  const other = await newStore();
  gate.fate = (_, post) => (post.storeId === String(storeId) && post.body.includes('"id":1') ? 'failed' : undefined);
  for (const id of [1, 2])
    for (const store of [storeId, other]) await insert({ id: store === other ? id + 7 : id }, { store });
  const { exitCode, relay, warnings } = await relayQuickly({ batch: 1 });
  assert.deepEqual([exitCode, relay.published], [3, 2]);
  assert.match(warnings.join('\n'), new RegExp(`store ${storeId} .*503`));
  assert.deepEqual([await published(), await published(other)], [[], ['8', '9']]);
  assert.deepEqual(await waiting(), [
    { id: '1', isMarked: true },
    { id: '2', isMarked: false },
  ]);
  gate.release();
  assert.equal((await once()).code, 0);
  assert.deepEqual(await published(), ['1', '2']);
});

test('a row whose response was lost is published once, also by another relay', async () => {
  gate.fate = () => 'lost';
  for (const id of [1, 2, 3]) await insert({ id });
  assert.equal((await relayQuickly()).exitCode, 3);
  assert.deepEqual(await published(), ['1', '2', '3']);
  assert.equal((await waiting()).length, 3);
  gate.release();
  await insert({ id: 4 });
  assert.equal((await once()).code, 0);
  assert.deepEqual(await published(), ['1', '2', '3', '4']);
});

const UNSENT: readonly (readonly [what: string, fate: Fate, isMarked: boolean])[] = [
  ['was refused for now', 'busy', false],
  ['may have arrived', 'refused', true],
  ['has a response of another server', 'page', true],
];

for (const [what, fate, isMarked] of UNSENT) {
  test(`a row whose request ${what} ${isMarked ? 'keeps' : 'loses'} its mark`, async () => {
    gate.fate = () => fate;
    await insert({ id: 1 });
    assert.equal((await relayQuickly()).exitCode, 3);
    assert.deepEqual(await waiting(), [{ id: '1', isMarked }]);
    assert.deepEqual(await dead(), []);
  });
}

test('a row whose key the server may have forgotten is not published again', async () => {
  await insert({ id: 1 });
  await insert({ id: 2 });
  await insert({ id: 3 });
  await shop.sql`
    update halcyon_outbox set date_attempted = now() - make_interval(mins => case when resource like '%1%' then 1381 else 1379 end)
    where resource not like '%3%'`;
  assert.equal((await once()).code, 2);
  assert.deepEqual(await published(), ['2', '3']);
  const [letter] = await dead();
  assert.match(letter?.reason ?? '', /23 hours/);
});

test('after a kill in the middle of a request each row is published once', async () => {
  for (const id of [1, 2]) await insert({ id });
  gate.fate = () => 'held';
  const killed = startProcess(['relay'], env);
  await until(published, ({ length }) => length === 2);
  killed.kill('SIGKILL');
  await killed.ended;
  assert.equal((await waiting()).length, 2);
  gate.release();
  await insert({ id: 3 });
  // The session of the killed process has the lock until PostgreSQL notices its end.
  const { code } = await until(once, (ended) => ended.code !== 1);
  assert.equal(code, 0);
  assert.deepEqual(await published(), ['1', '2', '3']);
});

test('a stop signal lets the running request end, and exits with 0', async () => {
  const running = start();
  await printed(running, /(Relaying)/);
  gate.fate = () => 'held';
  await insert({ id: 1 });
  await until(published, ({ length }) => length === 1);
  running.kill('SIGTERM');
  gate.release();
  const { code, out } = await untilEnded(running);
  assert.equal(code, 0);
  assert.match(out, /1 published, 0 refused/);
  assert.deepEqual(await waiting(), []);
});

test('a second relay waits until the first ends, and with --once it says so', async () => {
  const first = start();
  await printed(first, /(Relaying)/);
  const second = start();
  await printed(second, /(Another relay)/);
  const { code, err } = await once();
  assert.deepEqual([code, /Another relay/.test(err)], [1, true]);
  first.kill('SIGTERM');
  await untilEnded(first);
  await printed(second, /(Relaying)/);
  await insert({ id: 1 });
  await until(published, ({ length }) => length === 1);
  second.kill('SIGTERM');
  assert.equal((await untilEnded(second)).code, 0);
});

test('a relay reconnects to its database', async () => {
  const running = start();
  await printed(running, /(Relaying)/);
  await shop.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'halcyon-relay'`;
  await printed(running, /(retrying)/);
  await insert({ id: 1 });
  await until(published, ({ length }) => length === 1);
  running.kill('SIGTERM');
  assert.equal((await untilEnded(running)).code, 0);
});

test('a relay without access ends, and leaves the rows', async () => {
  await insert({ id: 1 });
  const { code, err } = await runCommand(['relay'], { ...env, HALCYON_CLIENT_SECRET: 'wrong' });
  assert.equal(code, 1);
  assert.match(err, /No token for the client/);
  assert.equal((await waiting()).length, 1);
});

test('the metrics have the rows that wait, their age, and the last failure', async () => {
  const port = await freePort();
  const running = start('--metrics-port', String(port));
  const scrape = async () => readExposition(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
  const ready = async () => (await fetch(`http://127.0.0.1:${port}/health/ready`)).status;
  await printed(running, /(Relaying)/);
  assert.equal(await ready(), 200);
  gate.fate = () => 'page';
  await insert({ id: 1 });
  await shop.sql`update halcyon_outbox set date_created = now() - interval '1 hour'`;
  const { value } = await until(scrape, ({ value: of }) => (of('halcyon_relay_rows_waiting') ?? 0) > 0);
  assert.equal(value('halcyon_relay_rows_waiting'), 1);
  assert.ok((value('halcyon_relay_oldest_row_seconds') ?? 0) >= 3600);
  await until(ready, (status) => status === 503);
  assert.ok(((await scrape()).value('halcyon_relay_last_error_timestamp_seconds') ?? 0) > 1_700_000_000);
  gate.release();
  await insert({ id: 2 }, { event: 'transaction/made', store: await newStore() });
  await until(
    scrape,
    ({ value: of }) => of('halcyon_relay_published_total') === 1 && of('halcyon_relay_refused_total') === 1,
  );
  await until(ready, (status) => status === 200);
  running.kill('SIGTERM');
  assert.equal((await untilEnded(running)).code, 0);
});

test('a table that is missing or has other columns is named, with the column and its type', async () => {
  const tables = await runCommand(['relay', '--init', 'postgres', '--table', 'shop.Outbox'], env);
  assert.equal((await once('--table', 'shop.Outbox')).code, 1);
  await shop.sql`create schema shop`;
  await shop.sql.unsafe(tables.out);
  assert.equal((await once('--table', 'shop.Outbox')).code, 0);
  const faults: readonly (readonly [statement: string, message: RegExp])[] = [
    ['drop table shop."Outbox_dead"', /Outbox_dead does not exist/],
    ['alter table shop."Outbox" alter resource type bytea using null', /Outbox\.resource is bytea.* text or JSON/],
    ['alter table shop."Outbox" drop event', /Outbox has no column event.* text/],
    ['drop table shop."Outbox"', /Outbox does not exist/],
  ];
  for (const [statement, message] of faults) {
    await shop.sql.unsafe(statement);
    const { code, err } = await once('--table', 'shop.Outbox');
    assert.equal(code, 1);
    assert.match(err, message);
    assert.match(err, /relay --init postgres/);
  }
});

test('the definition for MySQL has the same columns', async () => {
  const columnsIn = (text: string) => [...text.matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name);
  const { out } = await runCommand(['relay', '--init', 'mysql', '--json'], env);
  assert.deepEqual(columnsIn((JSON.parse(out) as { sql: string }).sql), columnsIn(defined.out));
});

test('the address of the database is read from a file, and a password in an argument is reported', async () => {
  await writeFile(join(folder, 'address'), `${env.HALCYON_RELAY_FROM}\n`);
  const without = { ...env, HALCYON_RELAY_FROM: '' };
  const run = (...args: string[]) => runCommand(['relay', '--once', ...args], without, { cwd: folder });
  const fromFile = await run('--from-file', 'address');
  assert.deepEqual([fromFile.code, fromFile.err], [0, '']);
  const given = await run('--from', env.HALCYON_RELAY_FROM);
  assert.equal(given.code, 0);
  assert.match(given.err, /HALCYON_RELAY_FROM or --from-file/);
  const usage: readonly (readonly [args: string[], message: RegExp])[] = [
    [[], /--from/],
    [['--from', 'sqlite://x'], /--from/],
    [['--from-file', 'missing'], /--from-file/],
    [['--table', 'a b'], /--table/],
    [['--batch', '1001'], /--batch/],
    [['--metrics-port', '0'], /--metrics-port/],
  ];
  for (const [args, message] of usage) {
    const { code, err } = await run(...args);
    assert.match(err, message);
    assert.ok(code === 1 || code === 2);
  }
  const nowhere = await run('--from', 'postgres://u@127.0.0.1:1/x');
  assert.equal(nowhere.code, 3, nowhere.err);
  assert.equal((await run('--from', 'mysql://u@127.0.0.1:1/x')).code, 3);
});
