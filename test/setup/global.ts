/**
 * Starts one PostgreSQL per test run, with the templates that test files clone.
 * Named on the command line with --test-global-setup, or called by test/run.ts.
 */
import { chmod, mkdtemp, readdir, realpath, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded, type Embedded } from '#db/embedded.ts';
import { migrate } from '#db/migrate.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { MIDSUMMER, MIDSUMMER_TEMPLATE, TEMPLATE, type Template } from './database.ts';

const MIGRATIONS = join(import.meta.dirname, '../../migrations');

const PREFIX = 'halcyon-test-';
const MEMORY = '/dev/shm';
const MEMORY_NEEDED_BYTES = 4 * 1024 ** 3;

let running: { embedded: Embedded; dataDir: string } | undefined;

/**
 * Returns the folder for the cluster: in memory if there is enough. Each clone creates 560 files, and ext4 spends
 * a third of PostgreSQL's processor time on finding inodes for them (a run of `npm test` takes 74 s in the kernel on
 * ext4, 42 s on tmpfs). A container's /dev/shm of 64 MB is too small.
 */
async function clusterParent(): Promise<string> {
  const { bavail, bsize } = await statfs(MEMORY).catch(() => ({ bavail: 0, bsize: 0 }));
  return bavail * bsize >= MEMORY_NEEDED_BYTES ? MEMORY : tmpdir();
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Removes the clusters of runs that were killed; their names carry the process id. */
async function removeAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid] = /^halcyon-test-(\d+)-/.exec(name) ?? [];
    if (pid === undefined || isRunning(Number(pid))) continue;
    await rm(join(parent, name), { recursive: true, force: true });
  }
}

async function removeCluster(dataDir: string): Promise<void> {
  await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true });
  await rm(dataDir, { recursive: true, force: true });
}

async function makeTemplates({ address }: Embedded): Promise<void> {
  if (address.kind !== 'socket') throw new TypeError('The embedded PostgreSQL listens on a socket');
  const admin = openPool(address, { connections: 1, applicationName: 'test-setup' });
  // It starts a process in one of hundreds of databases each 100 ms, and would give some tests other statistics than others by chance.
  await admin`alter system set autovacuum = off`;
  await admin`select pg_reload_conf()`;
  const change = async (template: Template, run: (sql: Sql) => Promise<unknown>): Promise<void> => {
    const sql = openPool({ ...address, database: template }, { connections: 1, applicationName: 'test-setup' });
    await run(sql);
    await sql.end();
  };
  const partition = (sql: Sql, now: Date) => maintainPartitions(sql, { now, retentionDays: 30, daysAhead: 3 });
  await admin`create database ${admin(TEMPLATE)}`;
  await change(TEMPLATE, (sql) => migrate(sql, MIGRATIONS));
  await admin`create database ${admin(MIDSUMMER_TEMPLATE)} template ${admin(TEMPLATE)} strategy file_copy`;
  await admin.end();
  await change(TEMPLATE, (sql) => partition(sql, new Date()));
  await change(MIDSUMMER_TEMPLATE, async (sql) => {
    await partition(sql, MIDSUMMER);
    await sql`create table event_some_day partition of event default`;
  });
}

export async function globalSetup(): Promise<void> {
  // The mutation runner starts many runs over one server.
  if (process.env['HALCYON_TEST_DATABASE']) return;
  const parent = await clusterParent();
  await removeAbandoned(parent);
  const dataDir = await mkdtemp(join(parent, `${PREFIX}${process.pid}-`));
  // Gives access to the user that runs PostgreSQL for root; nothing is created under /var/lib.
  await chmod(dataDir, 0o755);
  const embedded = await startEmbedded({ dataDir, durable: false });
  running = { embedded, dataDir };
  await makeTemplates(embedded).catch(async (error: unknown) => {
    await globalTeardown();
    throw error;
  });
  process.env['HALCYON_TEST_DATABASE'] = JSON.stringify(embedded.address);
}

export async function globalTeardown(): Promise<void> {
  if (running === undefined) return;
  const { embedded, dataDir } = running;
  running = undefined;
  await embedded.stop();
  await removeCluster(dataDir);
}
