/** `halcyon shards` on three databases of one server: its output, its refusals, and which of them say what to change. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { SHARDS } from '#core/ids.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { beat } from '#delivery/leases/leases-sql.ts';
import { createUser } from '#identity/accounts/users.ts';
import {
  sealAddress,
  findIdentity,
  assignShards,
  listLeasedShards,
  readIdentity,
  readMap,
  upsertDatabase,
} from '#shards/map-sql.ts';
import { HOME } from '#shards/map.ts';
import { cleanups } from '../setup/cleanups.ts';
import { runProcess } from '../setup/command.ts';
import { testDatabase, databaseEnvOf } from '../setup/database.ts';
import { passwords } from '../setup/passwords.ts';
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

test('a database is also found by its name, and the home database by its address', async () => {
  // It is no other installation, though a worker runs on it.
  await beat(home, 1, new Date());
  const [, second] = (await run('shards status')).json['databases'] as Json[];
  // Alone, this test finds no other database in the map.
  const known = second === undefined ? urls.b : String(second['name']);
  assert.equal((await run('shards move', ['5', '--to', known])).code, 0);
  assert.equal((await run('shards drop-moved', ['--now'])).code, 0);
  assert.equal((await run('shards move', ['5', '--to', urls.home])).code, 0);
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

/** What a refused target must still have: its relations, and no home database. */
async function contentOf(sql: Sql): Promise<unknown> {
  const relations =
    await sql`select relname, relkind from pg_class where relnamespace = 'public'::regnamespace order by 1`;
  const identity = await findIdentity(sql);
  return { relations, identity, leases: identity && (await listLeasedShards(sql)) };
}

const admin = poolOn(urls.home.replace('/home?', '/postgres?'));

async function createEmpty(name: string): Promise<string> {
  await admin`create database ${admin(name)}`;
  return urls.home.replace('/home?', `/${name}?`);
}

/** Makes a role of that name, and returns the address of the database with it. */
async function asRole(url: string, role: string, grants: readonly string[]): Promise<string> {
  await admin.unsafe(`create role ${role} login password 'secret'`);
  const owner = poolOn(url);
  for (const grant of grants) await owner.unsafe(`grant ${grant} to ${role}`);
  const changed = new URL(url);
  changed.username = role;
  changed.password = 'secret';
  return changed.href;
}

const SUBSCRIBER = ['pg_create_subscription', 'create on database'] as const;
const unusable: Record<string, () => Promise<{ url: string; expected: RegExp }>> = {
  'tables of another program': async () => {
    const url = await createEmpty('shop');
    await poolOn(url)`create table store (sku text)`;
    return { url, expected: /tables of another program \(store\)\. Create a database for Halcyon alone/ };
  },
  'a user that may not subscribe': async () => {
    const url = await asRole(await createEmpty('unsubscribed'), 'unsubscribed', []);
    return { url, expected: /may not create a subscription: grant pg_create_subscription/ };
  },
  'a user that may not create tables': async () => {
    const url = await asRole(await createEmpty('tableless'), 'tableless', [
      SUBSCRIBER[0],
      `${SUBSCRIBER[1]} tableless`,
    ]);
    return {
      url,
      expected: /may not create tables in the schema public\. In psql: grant create on schema public to tableless/,
    };
  },
  'a user that does not own the tables': async () => {
    const grants = [SUBSCRIBER[0], `${SUBSCRIBER[1]} unowned`, 'all on all tables in schema public'];
    const url = await asRole(await createDatabase(server, 'unowned'), 'unowned', grants);
    return { url, expected: /does not own the tables: connect as their owner/ };
  },
  'an empty installation with a worker': async () => {
    const url = await createDatabase(server, 'working');
    await beat(poolOn(url), 1, new Date());
    return { url, expected: /database of another installation \(a worker runs on it\): use a new database/ };
  },
  'an installation with users': async () => {
    const url = await createDatabase(server, 'peopled');
    const person = { email: 'ada@example.com', password: 'a long password', now: new Date() };
    await createUser(poolOn(url), passwords, person);
    return { url, expected: /database of another installation \(it has users\): use a new database/ };
  },
};

for (const [name, make] of Object.entries(unusable))
  test(`nothing is written into a target that cannot be used: ${name}`, async () => {
    const { url, expected } = await make();
    const target = poolOn(url);
    const before = await contentOf(poolOn(url));
    const { code, failure } = await run('shards move', ['0-7', '--to', url]);
    assert.notEqual(code, 0);
    assert.match(failure, expected);
    assert.deepEqual(await contentOf(target), before);
  });

test('nothing is written into a target whose server cannot connect to the source', async () => {
  const url = await asRole(await createEmpty('lonely'), 'lonely', [SUBSCRIBER[0], `${SUBSCRIBER[1]} lonely`]);
  // A subscription of a user that is no superuser needs a password in the address.
  const source = new URL(urls.home);
  source.password = '';
  const own = { DATABASE_URL: source.href, PGPASSWORD: new URL(urls.home).password };
  const before = await contentOf(poolOn(url));
  const { failure } = await run('shards move', ['0-7', '--to', url], own);
  assert.match(failure, /cannot subscribe to .*password is required/);
  assert.deepEqual(await contentOf(poolOn(url)), before);
});

test('after a restore status names and reads the databases of the setting, and changes nothing', async () => {
  const first = await createDatabase(server, 'first');
  assert.equal((await run('shards move', ['11', '--to', first])).code, 0);
  await admin`create database restored template first`;
  const at = async (more: Record<string, string>): Promise<Json> => {
    const { databases } = (await run('shards status', [], more)).json as { databases: Json[] };
    return databases.find(({ shards }) => shards === '11') ?? {};
  };
  assert.match(String((await at({}))['name']), /\/first$/);
  const map = await readMap(home);
  const restored = first.replace('/first?', '/restored?');
  const shown = await at({ SHARD_DATABASES: `0-10=${urls.home} 11=${restored} 12-255=${urls.home}` });
  assert.deepEqual([String(shown['name']).split('/').at(-1), shown['is_reachable']], ['restored', true]);
  assert.deepEqual(await readMap(home), map);
});

/** A home database whose map has two databases that never respond. `onBoth` is called with the connections when both are open. */
async function startSilent(
  name: string,
  onBoth: (own: Sql, sockets: readonly Socket[]) => Promise<void>,
): Promise<string> {
  const url = await createDatabase(server, name);
  const own = poolOn(url);
  const sockets: Socket[] = [];
  const silent = createServer((socket) => {
    socket.on('error', () => {}).resume();
    if (sockets.push(socket) !== 2) return;
    void onBoth(own, sockets).finally(() => sockets.forEach((one) => one.destroy()));
  }).listen(0, '127.0.0.1');
  ends.after(async () => void silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  const { identity } = await readIdentity(own);
  await upsertDatabase(own, { id: HOME, name, identity, address: null });
  await assignShards(own, [...Array(SHARDS).keys()], HOME);
  for (const id of [1, 2]) {
    const address = sealAddress(createSealer(SECRET_KEY), { id, url: `postgres://a:b@127.0.0.1:${port}/${id}` });
    await upsertDatabase(own, { id, name: `silent ${id}`, identity: randomUUID(), address });
    await assignShards(own, [id], id);
  }
  return url;
}

test('databases that do not respond are waited for together', async () => {
  let areTogether = false;
  const url = await startSilent('quiet', async (_, sockets) => {
    // A connection that the command has closed before is known to be closed after one turn of the loop.
    for (let turn = 0; turn < 2; turn += 1) await setImmediate();
    areTogether = sockets.every(({ readableEnded, destroyed }) => !readableEnded && !destroyed);
  });
  const { databases } = (await run('shards status', [], { DATABASE_URL: url })).json as { databases: Json[] };
  assert.equal(databases.filter(({ is_reachable: isReachable }) => isReachable === false).length, 2);
  assert.equal(areTogether, true);
});

test('a map that has changed while the command waited for a database is not changed again', async () => {
  const url = await startSilent('changing', async (own) => void (await assignShards(own, [5], 1)));
  const { failure } = await run('shards move', ['5', '--to', urls.b], { DATABASE_URL: url });
  assert.match(failure, /map of shards has changed since this command began: run it again/);
});
