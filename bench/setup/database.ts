/** A durable PostgreSQL for one bench, as `npm start` runs it, in a temporary folder. */
import { join } from 'node:path';
import { startEmbedded } from '#db/embedded.ts';
import { migrate } from '#db/migrate.ts';
import { maintainPartitions } from '#db/partitions.ts';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { readPidFile } from '#db/cluster.ts';
import { placeForFixture } from '../../test/setup/fixture.ts';
import { processorMsOf } from '../../test/setup/processor-time.ts';
import type { Defer } from './run.ts';

const MIGRATIONS = join(import.meta.dirname, '../../migrations');

export type Database = {
  address: DatabaseAddress;
  sql: Sql;
  /** The settings that decide how fast and how safe it is. */
  settings: string;
  /** Milliseconds of processor time that all its processes have used; NaN where there is no /proc. */
  cpuMs: () => Promise<number>;
};

/** A library has to be there when the server starts, so the first start only writes down that it is wanted. */
async function preload(dataDir: string, library: string): Promise<void> {
  const { address, stop } = await startEmbedded({ dataDir });
  const sql = openPool(address, { connections: 1, applicationName: 'bench' });
  await sql.unsafe(`alter system set shared_preload_libraries = ${library}`);
  await sql.end();
  await stop();
}

/** With `observed` the server counts what each statement costs it (pg_stat_statements), which costs a little itself, and can log plans. */
export async function startDatabase(defer: Defer, observed = false): Promise<Database> {
  const place = await placeForFixture();
  defer(place.remove);
  if (observed) await preload(place.dataDir, 'pg_stat_statements, auto_explain');
  const { address, stop } = await startEmbedded({ dataDir: place.dataDir });
  defer(stop);
  const sql = openPool(address, { connections: 10, applicationName: 'bench' });
  defer(() => sql.end({ timeout: 0 }));
  await migrate(sql, MIGRATIONS);
  await maintainPartitions(sql, { now: new Date(), retentionDays: 30, daysAhead: 3 });
  if (observed) await sql`create extension pg_stat_statements`;
  const settings = await sql<{ text: string }[]>`
    select name || '=' || current_setting(name) as text from pg_settings
    where name in ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size',
      'wal_compression')`;
  const [pid = ''] = (await readPidFile(join(place.dataDir, 'postgres', 'data'))) ?? [];
  return { address, sql, settings: settings.map(({ text }) => text).join(' '), cpuMs: () => processorMsOf(pid) };
}
