/**
 * A database of its own for a test file: a copy of the migrated template, dropped at the end.
 */
import { randomBytes } from 'node:crypto';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type postgres from 'postgres';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';

export type TestDatabase = { sql: Sql; address: DatabaseAddress; drop: () => Promise<void> };
type Context = { after: (fn: () => Promise<void>) => void };

const OBJECT_IN_USE = '55006';
const RETRY_MS = 50;
const ATTEMPTS = 40;

const serverAddress = () => {
  const text = process.env['HALCYON_TEST_DATABASE'];
  if (text) return JSON.parse(text) as Extract<DatabaseAddress, { kind: 'socket' }>;
  throw new Error(
    'There is no test database: run through npm test, or node --test --test-global-setup=test/setup/global.ts <file>',
  );
};

/** PostgreSQL refuses to copy a database that anybody is connected to, an autovacuum worker included. */
const copy = async (admin: Sql, template: string, name: string): Promise<void> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await admin`create database ${admin(name)} template ${admin(template)} strategy file_copy`;
      return;
    } catch (error) {
      if ((error as postgres.PostgresError).code !== OBJECT_IN_USE || attempt === ATTEMPTS) throw error;
      await delay(RETRY_MS);
    }
  }
};

const make = async (template: string, t: Context | undefined): Promise<TestDatabase> => {
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
  // Registered before the first await, while node:test still knows whose hook it is.
  if (t) t.after(drop);
  else after(drop);
  await copy(admin, template, address.database);
  return { sql, address, drop };
};

/**
 * A clone of the template: every migration applied, partitions made for today. Dropped by the context's `after`; without
 * a context, when the test that called ends, or the file when it is awaited at the top. Not for `before`, whose end
 * node:test takes for the end of all.
 */
export const testDatabase = (t?: Context): Promise<TestDatabase> => make('halcyon_template', t);

/** A database with nothing in it, for tests of what fills one. */
export const emptyDatabase = (t?: Context): Promise<TestDatabase> => make('template0', t);
