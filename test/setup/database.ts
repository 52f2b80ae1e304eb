/**
 * The database of a test file: a clone of the migrated template, dropped at the end.
 */
import { randomBytes } from 'node:crypto';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { suiteHandle } from './suite-handle.ts';

export type TestDatabase = { sql: Sql; address: Address; drop: () => Promise<void> };
type Address = Extract<DatabaseAddress, { kind: 'socket' }>;
type Context = { after: (fn: () => Promise<void>) => void };

/** Is migrated, and has the partitions of the days around the present, which a server need not create then. */
export const TEMPLATE = 'halcyon_template';
/** The same around `MIDSUMMER`. Other days have one partition for events. */
export const MIDSUMMER_TEMPLATE = 'halcyon_template_midsummer';
export type Template = typeof TEMPLATE | typeof MIDSUMMER_TEMPLATE;

/** The time at which the clocks of tests stand still. */
export const MIDSUMMER = new Date('2026-07-01T10:00:00.000Z');

const EMPTY = 'template0';
const OBJECT_IN_USE = '55006';
const RETRY_MS = 50;
const ATTEMPTS = 40;

function serverAddress() {
  const text = process.env['HALCYON_TEST_DATABASE'];
  if (text) return JSON.parse(text) as Address;
  throw new Error(
    'There is no test database: run through npm test, or node --test --test-global-setup=test/setup/global.ts <file>',
  );
}

/** Returns a url of a database of the test server. */
export function urlOf(address: DatabaseAddress): string {
  if (address.kind === 'url') return address.url;
  const { directory, user, password, database } = address;
  const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  return `postgres://${login}@localhost/${database}?host=${encodeURIComponent(directory)}`;
}

/** Returns the setting that leads a program to the database. */
export const databaseEnvOf = (address: DatabaseAddress) => ({ DATABASE_URL: urlOf(address) });

/** PostgreSQL refuses to copy a database with open connections, including those of autovacuum workers. */
async function copy(admin: Sql, template: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await admin`create database ${admin(name)} template ${admin(template)} strategy file_copy`;
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== OBJECT_IN_USE || attempt === ATTEMPTS) throw error;
      await delay(RETRY_MS);
    }
  }
}

/** A copy of a database has its identity, by which Halcyon recognizes a database under another address. */
async function renewIdentity(sql: Sql): Promise<void> {
  await sql`update database_identity set identity = gen_random_uuid()`;
}

async function make(template: string, t: Context | undefined): Promise<TestDatabase> {
  const server = serverAddress();
  const address = { ...server, database: `test_${randomBytes(8).toString('hex')}` };
  const admin = openPool(server, { connections: 1, applicationName: 'test-admin' });
  const sql = openPool(address, { connections: 10, applicationName: 'test' });
  let dropping: Promise<void> | undefined;
  const dropOnce = async (): Promise<void> => {
    await sql.end({ timeout: 0 });
    await admin`drop database if exists ${admin(address.database)} with (force)`;
    await admin.end();
  };
  const drop = (): Promise<void> => (dropping ??= dropOnce());
  // Registered before the first await, because node:test assigns hooks to the test that runs synchronously.
  if (t) t.after(drop);
  else after(drop);
  await copy(admin, template, address.database);
  if (template !== EMPTY) await renewIdentity(sql);
  return { sql, address, drop };
}

/**
 * Clones a template. The clone is dropped by the context's `after`;
 * without a context when the calling test ends, or the file if awaited at top level. Not for `before`: node:test runs `after` at
 * its end.
 */
export async function testDatabase(t?: Context, template: Template = TEMPLATE): Promise<TestDatabase> {
  const drops: (() => Promise<void>)[] = [];
  const dropOthers = async (): Promise<void> => {
    for (const drop of drops) await drop();
  };
  if (t) t.after(dropOthers);
  else after(dropOthers);
  const made = await make(template, t);
  return { ...made, sql: suiteHandle(made.sql, { after: (drop) => void drops.push(drop) }) };
}

/** Clones the template, with a pool of this one database also if the suite runs with a map of three. */
export function singleDatabase(t?: Context): Promise<TestDatabase> {
  return make(TEMPLATE, t);
}

/** Copies a database of the test server that has no connections. */
export function copyOfDatabase(database: string, t: Context): Promise<TestDatabase> {
  return make(database, t);
}

/** Creates an empty database, for tests of migrations and restores. */
export function emptyDatabase(t?: Context): Promise<TestDatabase> {
  return make(EMPTY, t);
}
