/** What every command stands on: settings, a migrated database, the key for secrets at rest. */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findRunning, startEmbedded } from '#database/embedded.ts';
import { migrate, MIGRATIONS } from '#database/migrate.ts';
import { checkServer, openPool, type DatabaseAddress, type Sql } from '#database/pool.ts';
import { checkSealingKey } from '#database/sealing-key.ts';
import type { Log } from '#kernel/log.ts';
import type { Config } from '#config.ts';

const KEY_FILE = 'secret-key';
/** One for partitions, one for housekeeping: each holds it under a lock while it works. */
const DIRECT_CONNECTIONS = 2;

export type House = {
  sql: Sql;
  /** To PostgreSQL itself, also where `DATABASE_URL` leads to PgBouncer. */
  direct: Sql;
  secretKey: Buffer;
  /** Fulfils when the embedded server ends by itself; never where there is none. */
  databaseEnded: Promise<string>;
  close: () => Promise<void>;
};

type Database = { address: DatabaseAddress; ended: Promise<string>; stop: () => Promise<void> };

const openDatabase = async (config: Config, log: Log, isGuest: boolean): Promise<Database> => {
  const stay = { ended: new Promise<string>(() => {}), stop: async () => {} };
  if (config.database.url !== undefined) return { address: { kind: 'url', url: config.database.url }, ...stay };
  // A command for a moment uses the server that a running Halcyon started, and leaves it running.
  const address = isGuest ? await findRunning(config.dataDir) : undefined;
  if (address !== undefined) return { address, ...stay };
  const embedded = await startEmbedded({ dataDir: config.dataDir, log });
  return { address: embedded.address, ended: embedded.exited, stop: embedded.stop };
};

/** The operator's key, or with the embedded database one that is generated into the data folder (mode 0600). */
const openSecretKey = async (config: Config): Promise<{ key: Buffer; from: string }> => {
  if (config.secretKey !== undefined) return { key: config.secretKey, from: 'HALCYON_SECRET_KEY' };
  const path = join(config.dataDir, KEY_FILE);
  try {
    return { key: Buffer.from((await readFile(path, 'utf8')).trim(), 'hex'), from: path };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const key = randomBytes(32);
  await writeFile(`${path}.new`, `${key.toString('hex')}\n`, { mode: 0o600 });
  await rename(`${path}.new`, path);
  return { key, from: path };
};

/**
 * Opens the database (starting the embedded one where there is no `DATABASE_URL`) and brings it to our schema. `worker` is
 * the id of the one that will deliver here: in pg_stat_activity its connections then have the name that shard_lease has.
 */
export const openHouse = async (
  config: Config,
  log: Log,
  options: { isGuest: boolean; worker?: number },
): Promise<House> => {
  const database = await openDatabase(config, log, options.isGuest);
  const { connections, silenceMs } = config.database;
  const applicationName = options.worker === undefined ? 'halcyon' : `halcyon ${options.worker}`;
  const { directUrl } = config.database;
  const isShared = directUrl !== undefined;
  // A command waits as long as it takes.
  const patience = options.isGuest ? {} : { silenceMs };
  const sql = openPool(database.address, { connections, applicationName, isShared, ...patience });
  const directly = isShared ? ({ kind: 'url', url: directUrl } as const) : database.address;
  const direct = openPool(directly, { connections: DIRECT_CONNECTIONS, applicationName });
  const close = async () => {
    const timeout = config.stopping.databaseMs / 1_000;
    await Promise.all([sql.end({ timeout }), direct.end({ timeout })]);
    await database.stop();
  };
  try {
    await checkServer(direct);
    if (isShared) await checkServer(sql);
    const secretKey = await openSecretKey(config);
    await migrate(direct, MIGRATIONS);
    await checkSealingKey(direct, secretKey);
    return { sql, direct, secretKey: secretKey.key, databaseEnded: database.ended, close };
  } catch (error) {
    await close();
    throw error;
  }
};
