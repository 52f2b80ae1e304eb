/** What every command stands on: settings, a migrated database, the key for secrets at rest. */
import { findRunning, startEmbedded } from '#db/embedded.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { checkServer, openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { checkSealingKey } from '#db/sealing-key.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Config } from '#config/config.ts';
import { openKeyFile } from './key-file.ts';

/** One for partitions, one for housekeeping: each holds it under a lock while it works. */
const DIRECT_CONNECTIONS = 2;

export type Installation = {
  sql: Sql;
  /** To PostgreSQL itself, also where `DATABASE_URL` leads to PgBouncer. */
  direct: Sql;
  /** The first seals; the others open what is not sealed with it. */
  secretKeys: Keys;
  /** Whether the first is the key that the database is sealed with; otherwise it waits for `halcyon rekey`. */
  isKeyAdopted: boolean;
  /** The migrations that this opening brought. */
  applied: readonly string[];
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

/** The operator's keys, or with the embedded database one that is generated into the data folder. */
const openSecretKeys = async (config: Config): Promise<{ keys: Keys; from: string }> => {
  const { secretKeys, dataDir } = config;
  if (secretKeys === undefined) return openKeyFile(dataDir, Date.now());
  const others = secretKeys.length > 1 ? ', like HALCYON_SECRET_KEY_OTHER,' : '';
  return { keys: secretKeys, from: `HALCYON_SECRET_KEY${others}` };
};

/**
 * Opens the database (starting the embedded one where there is no `DATABASE_URL`) and brings it to our schema. `worker` is
 * the id of the one that will deliver here: in pg_stat_activity its connections then have the name that shard_lease has.
 */
export const openInstallation = async (
  config: Config,
  log: Log,
  options: { isGuest: boolean; worker?: number; onMigration?: (name: string) => void },
): Promise<Installation> => {
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
    const { keys: secretKeys, from } = await openSecretKeys(config);
    const { applied } = await migrate(direct, MIGRATIONS, options.onMigration);
    const isKeyAdopted = await checkSealingKey(direct, { keys: secretKeys, from });
    return { sql, direct, secretKeys, isKeyAdopted, applied, databaseEnded: database.ended, close };
  } catch (error) {
    await close();
    throw error;
  }
};
