/** `halcyon load`: the history of a file is loaded once, whatever fails on the way. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startCommand, startProcess, type Ended } from '../setup/command.ts';
import { startGate } from '../setup/publish-gate.ts';
import { until } from '../setup/until.ts';

const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });
const { sql } = app;
const gate = await startGate(app.baseUrl, ends);
const folder = await mkdtemp(join(tmpdir(), 'halcyon-load-'));
after(() => rm(folder, { recursive: true }));
const platform = await createClient(sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });
const env = {
  HALCYON_URL: gate.url,
  HALCYON_CLIENT_ID: platform.client_id,
  HALCYON_CLIENT_SECRET: platform.client_secret,
  HALCYON_DATA: join(folder, 'none'),
};

const STORE = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now: app.clock.now() };
let storeId = 0;
beforeEach(async () => {
  storeId = (await createStore(sql, STORE)).id;
});

const line = (id: number, more: object = {}): string =>
  JSON.stringify({ type: 'transaction', resource: { id, date_modified: '2022-01-01T00:00:00Z', ...more } });

const FILE = join(folder, 'history.jsonl');

const loadFile = (...args: string[]): Promise<Ended> =>
  startCommand(['load', 'history.jsonl', '--store', String(storeId), ...args], env, { cwd: folder }).ended;

async function load(lines: readonly string[], ...args: string[]): Promise<Ended> {
  await writeFile(FILE, lines.join('\n'));
  return loadFile(...args);
}

async function stored(): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from resource where shard = ${shardOf(storeId)} and store_id = ${storeId}`;
  return row?.count ?? 0;
}

test('a file is loaded, and a second time kept', async () => {
  const lines = Array.from({ length: 1_200 }, (_, id) => line(id));
  const first = await load(lines);
  assert.match(first.out, /^1,200 resources loaded in /);
  assert.equal(first.code, 0);
  assert.equal(await stored(), 1_200);
  assert.match((await load(lines)).out, /^0 resources loaded, 1,200 kept, in /);
});

test('a dry run names what is odd, and writes nothing', async () => {
  const undated = { date_modified: null };
  const lines = [line(1), ...Array.from({ length: 7 }, (_, id) => line(10 + id, undated))];
  const { out, err, code } = await load(lines, '--dry-run');
  assert.match(out, /^8 resources would be loaded in .*; nothing is written$/m);
  assert.match(err, /^history\.jsonl:2: warning: resource\.date_modified is missing: /m);
  assert.match(err, /^warning: resource\.date_modified is missing.* \(7 lines\)$/m);
  assert.equal(err.match(/history\.jsonl:/g)?.length, 5);
  assert.equal(code, 0);
  assert.equal(await stored(), 0);
});

test('a refused line is named, and ends the load unless --keep-going', async () => {
  const lines = [line(1), '{"type":"order","resource":{"id":2}}', 'null', line(4)];
  const stopped = await load(lines);
  assert.match(stopped.err, /^history\.jsonl:2: type must be one of /m);
  assert.match(
    stopped.err,
    /Stopped at line 2\. At least 1 resource is loaded\. To continue, run the same command again; what is loaded is kept/,
  );
  assert.equal(stopped.code, 1);
  const { out, err, code } = await load(lines, '--keep-going', '--json');
  assert.match(err, /^history\.jsonl:3: the line is not a resource with its type: write {"type": "transaction"/m);
  const { seconds: _, faults: _faults, ...result } = JSON.parse(out) as Record<string, unknown>;
  const expected = { complete: true, loaded: 1, kept: 1, dry_run: false, refused: 2 };
  assert.deepEqual([result, code], [expected, 2]);
  assert.equal(await stored(), 2);
});

test('requests without an answer are repeated', async () => {
  gate.posts = [];
  gate.fate = (n) => (['failed', 'lost'] as const)[n];
  const { out, code } = await load([line(1), line(2)]);
  assert.match(out, /^0 resources loaded, 2 kept, in /);
  assert.equal(code, 0);
  assert.equal(gate.posts.length, 3);
  assert.equal(await stored(), 2);
});

/** Ends a load of these lines whose second request has no answer yet. */
async function endInTheMiddle(signal: NodeJS.Signals, lines: readonly string[], ...args: string[]): Promise<void> {
  await writeFile(FILE, lines.join('\n'));
  gate.posts = [];
  gate.fate = (n) => (n < 1 ? undefined : 'held');
  const ended = startProcess(['load', FILE, '--store', String(storeId), ...args], env);
  await until(
    async () => gate.posts.length,
    (count) => count === 2,
  );
  ended.kill(signal);
  await ended.ended;
  gate.release();
  gate.posts = [];
}

const many = Array.from({ length: 600 }, (_, id) => line(id));
const sentLines = (): number => gate.posts.reduce((sum, { events }) => sum + events, 0);
const CONTINUES = /^history\.jsonl: an earlier load has finished [\d,]+ lines; this one continues after them$/m;

test('after a kill the same command continues after the lines that are loaded', async () => {
  await endInTheMiddle('SIGKILL', many);
  const { err, code } = await loadFile();
  assert.match(err, CONTINUES);
  assert.equal(code, 0);
  assert.equal(await stored(), 600);
  assert.ok(sentLines() < 600, `${sentLines()} lines were sent`);
  gate.posts = [];
  assert.match((await loadFile()).out, /600 kept/, 'the position of a complete load');
});

test('after a kill a changed file is loaded from its first line, and so is the file into another store', async () => {
  await endInTheMiddle('SIGKILL', many);
  const [first] = many;
  assert.match((await load([first ?? '', ...many])).out, /601 kept/);
  await endInTheMiddle('SIGKILL', many);
  storeId = (await createStore(sql, { ...STORE, name: 'Other' })).id;
  assert.match((await loadFile()).out, /^600 resources loaded in /);
});

test('a refused line is read again, also if lines after it were loaded', async () => {
  await endInTheMiddle('SIGINT', [line(0), 'null', ...many], '--keep-going');
  const again = await loadFile('--keep-going');
  assert.match(again.err, CONTINUES);
  assert.match(again.err, /^history\.jsonl:2: /m);
  assert.equal(again.code, 2);
});
