/** `halcyon shards` on three databases of one server: its output, its refusals, and which of them say what to change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool, type Sql } from '#db/pool.ts';
import { cleanups } from '../setup/cleanups.ts';
import { runProcess } from '../setup/command.ts';
import { testDatabase, databaseEnvOf } from '../setup/database.ts';
import { addStore, createDatabase, SECRET_KEY, startLogicalServer } from '../setup/shard-move.ts';

const ends = cleanups();
const server = await startLogicalServer(ends, 18);
const urls = {
  home: await createDatabase(server, 'home'),
  b: await createDatabase(server, 'b'),
  c: await createDatabase(server, 'c'),
};
const env = { DATABASE_URL: urls.home, HALCYON_SECRET_KEY: SECRET_KEY.toString('hex'), LOG_LEVEL: 'silent' };

function poolOn(url: string): Sql {
  const sql = openPool({ kind: 'url', url }, { connections: 2, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  return sql;
}
const home = poolOn(urls.home);
await addStore(home, 3);
await addStore(home, 200);

type Json = Record<string, unknown>;

/** Runs a command; returns its exit code and its JSON, or that of its error. */
async function run(command: string, args: readonly string[] = [], more: Record<string, string> = {}) {
  const { code, out, err } = await runProcess([...command.split(' '), ...args, '--json'], { ...env, ...more });
  const last = err.trim().split('\n').at(-1) ?? '';
  const failure = last.startsWith('{') ? (JSON.parse(last) as { error: { message: string } }).error.message : '';
  return { code, json: (code === 0 ? JSON.parse(out) : {}) as Json, failure };
}

test('a plan names the moves for a new database, a move carries one out, and status shows the result', async () => {
  const planned = await run('shards plan', ['--even', '--by', 'rows', '--with', urls.b]);
  const shown = urls.b.replace(':fleet@', ':…@');
  assert.deepEqual(planned.json['moves'], [{ from: 'home', command: `halcyon shards move 128-255 --to ${shown}` }]);
  const { code, json } = await run('shards move', ['128-255', '--to', urls.b]);
  assert.equal(code, 0);
  assert.equal(json['shards'], '128-255');
  assert.ok(Number(json['refused_ms']) < 2_500, JSON.stringify(json));
  const status = await run('shards status');
  const [first, second] = status.json['databases'] as Json[];
  assert.deepEqual([first?.['shards'], first?.['stores']], ['0-127', 1]);
  assert.deepEqual([second?.['shards'], second?.['stores'], second?.['is_reachable']], ['128-255', 1, true]);
  assert.match(JSON.stringify(status.json['moves']), /ended.*drop-moved/);

  assert.match((await run('shards drop-moved')).failure, /--now/);
  const dropped = await run('shards drop-moved', ['--now']);
  assert.ok(Number(dropped.json['rows']) > 5);
  assert.deepEqual((await run('shards status')).json['moves'], []);
});

test('a database is also found by its name, and as home', async () => {
  const [, second] = (await run('shards status')).json['databases'] as Json[];
  assert.equal((await run('shards move', ['5', '--to', String(second?.['name'])])).code, 0);
  assert.equal((await run('shards drop-moved', ['--now'])).code, 0);
  assert.equal((await run('shards move', ['5', '--to', 'home'])).code, 0);
  assert.equal((await run('shards drop-moved', ['--now'])).code, 0);
});

test('a plan prints no password', async () => {
  const { json } = await run('shards plan', ['--even', '--with', 'postgres://halcyon:secret@c.example.com/halcyon']);
  assert.match(JSON.stringify(json), /--to postgres:\/\/halcyon:…@c\.example\.com\/halcyon/);
  assert.doesNotMatch(JSON.stringify(json), /secret/);
});

test('a database whose shards have moved away leaves the map with its rows, but not if it still delivers', async () => {
  const c = poolOn(urls.c);
  assert.equal((await run('shards move', ['6', '--to', urls.c])).code, 0);
  assert.equal((await run('shards drop-moved', ['--now'])).code, 0);
  assert.equal((await run('shards move', ['6', '--to', 'home'])).code, 0);
  await c`insert into shard_lease (shard) values (7)`;
  assert.deepEqual((await run('shards drop-moved', ['--now'])).json['removed'], []);
  await c`delete from shard_lease`;
  const { json } = await run('shards drop-moved');
  const [removed, ...others] = json['removed'] as string[];
  assert.match(removed ?? '', /\/c$/);
  assert.deepEqual(others, []);
  const { databases } = (await run('shards status')).json as { databases: Json[] };
  assert.ok(databases.every(({ name }) => name !== removed));
  const [row] = await c<{ home: string | null }[]>`select home::text from database_identity`;
  assert.equal(row?.home, null, 'it can be used as a new database');
});

test('--abort without a move changes no database', async () => {
  const f = await createDatabase(server, 'f');
  await poolOn(f)`delete from schema_migration where version = 34`;
  const { code, failure } = await run('shards move', ['0-7', '--to', f, '--abort']);
  assert.notEqual(code, 0);
  assert.match(failure, /No move is under way/);
  assert.equal((await poolOn(f)`select from schema_migration where version = 34`).length, 0);
});

test('what cannot be moved is refused with what to change', async () => {
  const refusals: [args: string[], expected: RegExp][] = [
    [['64-300', '--to', urls.c], /"64-300" is no range of shards/],
    [['100-200', '--to', urls.c], /several databases.*has 100-127.*has 128-200/],
    [['0-7', '--to', urls.home], /has these shards already/],
    [['0-7', '--to', 'nowhere'], /no database of the map/],
  ];
  for (const [args, expected] of refusals) {
    const { code, failure } = await run('shards move', args);
    assert.notEqual(code, 0);
    assert.match(failure, expected);
  }
  const withRows = poolOn(urls.b);
  await withRows`insert into erased_store (shard, id, date_erased) values (9, 2569, now())`;
  assert.match(
    (await run('shards move', ['9', '--to', urls.b])).failure,
    /has rows of these shards in the table erased_store/,
  );
});

test('the source needs wal_level=logical', async () => {
  const { address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const own = { ...databaseEnvOf(address), HALCYON_SECRET_KEY: env.HALCYON_SECRET_KEY };
  const target = await createDatabase(server, 'd');
  const { code, failure } = await run('shards move', ['0-7', '--to', target], own);
  assert.equal(code, 1);
  assert.match(failure, /wal_level=logical/);
  const [row] = await poolOn(target)<{ home: string | null }[]>`select home::text from database_identity`;
  assert.equal(row?.home, null, 'the target is unchanged');
});

test('a target that is sealed with another key is refused', async () => {
  const target = await createDatabase(server, 'e');
  await poolOn(target)`insert into sealing_key (key_id) values (${Buffer.alloc(4)})`;
  assert.match((await run('shards move', ['0-7', '--to', target])).failure, /HALCYON_SECRET_KEY is another key/);
});
