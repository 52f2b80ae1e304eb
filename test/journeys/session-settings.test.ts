/** Settings of the role or the database (`ALTER DATABASE … SET`) change neither what is read and written, nor what is done. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { LIMITS, SESSION } from '#db/servers.ts';
import { checkPooled } from '#db/usable.ts';
import { readConfig } from '#config/config.ts';
import { openInstallation } from '#cli/installation.ts';
import { SERVER_CHECKS } from '#cli/doctor/map-checks.ts';
import { TABLE_CHECKS } from '#cli/doctor/table-checks.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups, type Cleanups } from '../setup/cleanups.ts';
import { testClock } from '../setup/clock.ts';
import { runCommand } from '../setup/command.ts';
import { databaseEnvOf, emptyDatabase, singleDatabase } from '../setup/database.ts';
import { assertFinding, findingsIn, findingsOf } from '../setup/findings.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

/** A value with which Halcyon would misread, fail or wait, and which it replaces. */
const PINNED: Record<string, string> = {
  TimeZone: 'Asia/Tokyo',
  DateStyle: 'German, DMY',
  standard_conforming_strings: 'off',
  bytea_output: 'escape',
  array_nulls: 'off',
  extra_float_digits: '-15',
  quote_all_identifiers: 'on',
  transform_null_equals: 'on',
  default_transaction_isolation: 'serializable',
  exit_on_error: 'on',
  statement_timeout: '1',
  lock_timeout: '1',
  idle_in_transaction_session_timeout: '1',
  idle_session_timeout: '1',
};
const OF_SESSION = Object.fromEntries(Object.entries(PINNED).filter(([name]) => name in SESSION));
/** A value that the journey is made with: Halcyon works as well with it. */
const HARMLESS: Record<string, string> = {
  IntervalStyle: 'sql_standard',
  timezone_abbreviations: 'Australia',
  default_text_search_config: 'pg_catalog.german',
  lc_monetary: 'C.UTF-8',
  lc_numeric: 'C.UTF-8',
  lc_time: 'C.UTF-8',
  client_encoding: 'LATIN1',
  icu_validation_level: 'error',
  gin_fuzzy_search_limit: '1',
  gin_pending_list_limit: '64',
  client_min_messages: 'debug1',
  createrole_self_grant: 'set',
  row_security: 'off',
  xmloption: 'document',
  xmlbinary: 'hex',
  default_toast_compression: 'pglz',
  default_transaction_deferrable: 'on',
  check_function_bodies: 'off',
  synchronize_seqscans: 'off',
  escape_string_warning: 'off',
  backslash_quote: 'off',
  'plpgsql.extra_warnings': 'all',
  'plpgsql.extra_errors': 'all',
  'plpgsql.check_asserts': 'off',
  'plpgsql.print_strict_params': 'on',
};
const NOT_SET: Record<string, string> = {
  search_path: 'chooses the schema of the tables; without any the start is refused',
  default_transaction_read_only: 'refuses writes on purpose: health and doctor report it',
  transaction_read_only: 'of one transaction',
  transaction_isolation: 'of one transaction',
  transaction_deferrable: 'of one transaction',
  transaction_timeout: 'PostgreSQL 15 does not have it; a transaction that it ends is repeated or a 503',
  restrict_nonsystem_relation_kind: 'PostgreSQL 15 does not have it; it refuses views on purpose',
  default_table_access_method: 'where tables are stored; PostgreSQL has only heap',
  default_tablespace: 'where tables are stored',
  temp_tablespaces: 'where temporary files are stored',
  local_preload_libraries: 'loads code that the operator has installed',
};
/** Categories of settings that concern the speed, the memory, the log or the connection, and no value. */
const OTHER_CATEGORIES =
  /^(Query Tuning|Resource Usage|Reporting and Logging|Statistics|Vacuuming|Developer Options|Replication|Write-Ahead Log|Connections and Authentication) \/|^Developer Options$/;

/** A value with a comma is a list. */
const literal = (value: string): string => (value.includes(',') ? value : `'${value}'`);

type Socket = Extract<DatabaseAddress, { kind: 'socket' }>;
async function withSettings(ends: Cleanups, settings: Record<string, string>): Promise<{ sql: Sql; address: Socket }> {
  const { sql, address } = await singleDatabase(ends);
  assert.ok(address.kind === 'socket');
  for (const [name, value] of Object.entries(settings))
    await sql.unsafe(`alter database ${address.database} set ${name} = ${literal(value)}`);
  return { sql, address };
}
const open = (ends: Cleanups, address: DatabaseAddress, isShared = false, connections = 10): Sql => {
  const sql = openPool(address, { connections, applicationName: 'test', isShared });
  ends.after(() => sql.end({ timeout: 0 }));
  return sql;
};

test('every setting that a user can set is replaced, harmless, or left to the operator for a reason', async () => {
  const { sql } = await singleDatabase(cleanups());
  await sql`do $$ begin end $$`;
  const settings = await sql<{ name: string; category: string }[]>`
    select name, category from pg_settings where context = 'user'`;
  const unknown = settings.filter(
    ({ name, category }) =>
      !OTHER_CATEGORIES.test(category) && [PINNED, HARMLESS, NOT_SET].filter((some) => name in some).length !== 1,
  );
  assert.deepEqual(unknown, []);
  assert.ok(settings.length > 130);
});

test('sessions have the settings of Halcyon, whatever the database and its address have', async () => {
  const ends = cleanups();
  for (const [isShared, wanted] of [
    [false, { ...SESSION, ...LIMITS }],
    [true, SESSION],
  ] as const) {
    const names = Object.keys(wanted);
    const { address } = await withSettings(ends, isShared ? OF_SESSION : PINNED);
    const url = `${databaseEnvOf(address).DATABASE_URL}&bytea_output=escape&options=-c%20array_nulls%3Doff`;
    for (const at of [address, { kind: 'url', url } as const]) {
      const rows = await open(ends, at, isShared, 1)<{ name: string; value: string }[]>`
        select name, setting as value from pg_settings where name = any (${names})`;
      assert.deepEqual(Object.fromEntries(rows.map(({ name, value }) => [name, value])), wanted);
    }
    assert.ok(names.every((name) => name in PINNED));
  }
});

test('a webhook is created, delivered and listed with every hostile setting', async () => {
  const ends = cleanups();
  // Dates have seconds.
  const begunMs = Math.floor(Date.now() / 1_000) * 1_000;
  const { address } = await withSettings(ends, { ...PINNED, ...HARMLESS });
  const { api, storeId, platformToken, stop } = await startTestApp({ sql: open(ends, address) });
  ends.after(stop);
  const receiver = await startReceiver(ends);
  const read = async (path: string, token?: string) =>
    (await (await api('GET', path, token === undefined ? {} : { token })).json()) as Record<string, unknown>;
  const key = `whsec_${randomBytes(24).toString('base64')}`;
  const body = {
    name: 'Ünïcode ✓',
    format: 'json',
    url: `${receiver.url}/hook?a=b`,
    encryption_key: key,
    event_resource: 'transaction',
    headers: { 'X-Team': 'ops' },
  };
  const made = await api('POST', `/stores/${storeId}/webhooks`, { body });
  assert.equal(made.status, 201, await made.text());
  const at = made.headers.get('location') ?? '';
  const resource = { id: 1, total: 0.1, note: 'it\'s a \\ "quote" ✓' };
  for (const event of ['transaction/created', 'transaction/modified']) {
    const published = await api('POST', `/stores/${storeId}/events`, {
      token: platformToken,
      body: { event, resource },
    });
    assert.equal(published.status, 201, await published.text());
  }
  await receiver.until(2);
  const { id, total, note } = JSON.parse(String(receiver.got[0]?.body)) as Record<string, unknown>;
  assert.deepEqual({ id, total, note }, resource);
  assert.equal(receiver.got[0]?.headers['x-team'], 'ops');
  const webhook = await read(at);
  assert.deepEqual([webhook['name'], webhook['encryption_key'], webhook['headers']], [body.name, key, body.headers]);
  const done = await until(
    () => read(`${at.split('?', 1)[0] ?? ''}/statuses?status=successful&order=date_created`),
    (list) => list['total_items'] === '2',
  );
  const [first] = (done['_embedded'] as Record<string, { date_created: string }[]>)['svc:statuses'] ?? [];
  // In the time zone of the store, with its offset.
  const { date_created: created } = first ?? assert.fail();
  const createdMs = Date.parse(created);
  assert.ok(createdMs >= begunMs && createdMs <= Date.now(), created);
  assert.equal((await read(`/stores/${storeId}/events?event=transaction/created`))['total_items'], '1');
  assert.equal((await read('/stores', platformToken))['total_items'], '1');
});

test('the migrations, the start and the doctor work with every hostile setting', async () => {
  const ends = cleanups();
  const { sql, address } = await emptyDatabase(ends);
  assert.ok(address.kind === 'socket');
  for (const [name, value] of Object.entries({ ...OF_SESSION, ...HARMLESS }))
    await sql.unsafe(`alter database ${address.database} set ${name} = ${literal(value)}`);
  const HALCYON_SECRET_KEY = randomBytes(32).toString('hex');
  const env = { ...databaseEnvOf(address), HALCYON_SECRET_KEY, DELIVERY_LEASE_MS: '500' };
  assert.equal((await runCommand(['migrate'], env)).code, 0);
  const findings = findingsIn(await runCommand(['doctor', '--json'], env));
  const ofTables = findings.filter(({ check }) => TABLE_CHECKS.some(({ name }) => name === check));
  assert.equal(ofTables.length, TABLE_CHECKS.length);
  assert.ok(!ofTables.some(({ state }) => state === 'fail'));
});

test('a pooler whose sessions begin with another setting is refused, with the statement that corrects it', async () => {
  const ends = cleanups();
  const { sql, address } = await withSettings(ends, {});
  for (const [name, value] of Object.entries(OF_SESSION)) {
    await sql.unsafe(`alter database ${address.database} set ${name} = ${literal(value)}`);
    // The session of the check itself has the right settings.
    const checked = checkPooled(open(ends, address, true, 1));
    if (/^(TimeZone|DateStyle|standard_)/.test(name)) await checked;
    else await assert.rejects(checked, new RegExp(`${name} = .*alter role .* in database .* set ${name} = '`));
    await sql.unsafe(`alter database ${address.database} reset ${name}`);
  }
});

for (const encoding of ['SQL_ASCII', 'LATIN1', 'EUC_JP'])
  test(`a database with the encoding ${encoding} is refused before the migrations`, async () => {
    const ends = cleanups();
    const { sql, address } = await emptyDatabase(ends);
    assert.ok(address.kind === 'socket');
    const name = `${address.database}_other`;
    await sql.unsafe(
      `create database ${name} template template0 encoding '${encoding}' locale_provider libc locale 'C'`,
    );
    ends.after(async () => void (await sql.unsafe(`drop database ${name} with (force)`)));
    const other = open(ends, { ...address, database: name }, false, 1);
    await assert.rejects(migrate(other, MIGRATIONS), new RegExp(`${encoding}.*--encoding=UTF8`));
    assert.deepEqual([...(await other`select to_regclass('schema_migration') as there`)], [{ there: null }]);
    const place = { config: readConfig({}, '/'), clock: testClock(), sql: other, direct: other };
    assertFinding(await findingsOf(SERVER_CHECKS, place), new RegExp(`^fail .*${encoding}`));
  });

test('without a schema for its tables the database is refused', async () => {
  const ends = cleanups();
  const { sql, address } = await withSettings(ends, {});
  for (const path of ["''", 'nowhere', '"$user", nowhere']) {
    await sql.unsafe(`alter database ${address.database} set search_path = ${path}`);
    await assert.rejects(migrate(open(ends, address, false, 1), MIGRATIONS), /search_path .*Create the schema/);
  }
});

test('the start and the doctor warn of indexes that were built with other collations', async () => {
  const ends = cleanups();
  const { sql, address } = await withSettings(ends, {});
  const config = readConfig({ ...databaseEnvOf(address), HALCYON_SECRET_KEY: randomBytes(32).toString('hex') }, '/');
  const place = { config, clock: testClock(), sql, direct: sql };
  const said: string[] = [];
  const start = async () => {
    const log = createLog('warn', { write: (line) => void said.push(line) });
    await (await openInstallation(config, log, { usesRunningServer: true })).close();
  };
  await start();
  assert.deepEqual(said, []);
  assert.ok(!(await findingsOf(SERVER_CHECKS, place)).some(({ message }) => /collations/.test(message)));
  await sql`update pg_database set datcollversion = '0.9' where datname = current_database()`;
  await start();
  assert.match(said.join(), /"recorded":"0\.9".*refresh collation version.*collations have changed/);
  assertFinding(await findingsOf(SERVER_CHECKS, place), /^warn the collations .* 0\.9/);
});
