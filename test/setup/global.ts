/**
 * One PostgreSQL for a whole run of tests, and in it a migrated template that each test file clones.
 * Named on the command line with --test-global-setup.
 */
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded, type Embedded } from '#database/embedded.ts';
import { migrate } from '#database/migrate.ts';
import { maintainPartitions } from '#database/partitions.ts';
import { openPool } from '#database/pool.ts';

const TEMPLATE = 'halcyon_template';
const MIGRATIONS = join(import.meta.dirname, '../../migrations');

let running: { embedded: Embedded; dataDir: string } | undefined;

const makeTemplate = async ({ address }: Embedded): Promise<void> => {
  if (address.kind !== 'socket') throw new TypeError('The embedded PostgreSQL listens on a socket');
  const admin = openPool(address, { connections: 1, applicationName: 'test-setup' });
  await admin`create database ${admin(TEMPLATE)}`;
  await admin.end();
  const sql = openPool({ ...address, database: TEMPLATE }, { connections: 1, applicationName: 'test-setup' });
  await migrate(sql, MIGRATIONS);
  await maintainPartitions(sql, { now: new Date(), retentionDays: 30, daysAhead: 3 });
  await sql.end();
};

export const globalSetup = async (): Promise<void> => {
  // The sabotage runner starts many runs over one server.
  if (process.env['HALCYON_TEST_DATABASE']) return;
  const dataDir = await mkdtemp(join(tmpdir(), 'halcyon-test-'));
  // So that the user who runs PostgreSQL for root gets in, and nothing is put under /var/lib.
  await chmod(dataDir, 0o755);
  const embedded = await startEmbedded({ dataDir, durable: false });
  running = { embedded, dataDir };
  await makeTemplate(embedded).catch(async (error: unknown) => {
    await globalTeardown();
    throw error;
  });
  process.env['HALCYON_TEST_DATABASE'] = JSON.stringify(embedded.address);
};

export const globalTeardown = async (): Promise<void> => {
  if (running === undefined) return;
  const { embedded, dataDir } = running;
  running = undefined;
  await embedded.stop();
  await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true });
  await rm(dataDir, { recursive: true, force: true });
};
