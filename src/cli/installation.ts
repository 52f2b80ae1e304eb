/** Opens what every command needs: migrated databases and the keys for secrets at rest. */
import { findRunning, startEmbedded } from '#db/embedded.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { checkPooled, checkServer, findCollationChange, remedyOfCollations } from '#db/usable.ts';
import { checkSealingKey } from '#db/seal.ts';
import { nameOf } from '#db/servers.ts';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Config } from '#config/config.ts';
import type { AppDeps } from '#server/app.ts';
import type { ShardMap } from '#shards/map.ts';
import { prepareDatabase } from '#shards/prepare.ts';
import { openKeyFile } from './key-file.ts';
import { warnIfLate } from './late.ts';
import { openOtherDatabases, type MigratedDatabase, type OtherDatabase } from './other-databases.ts';

/** One for partition maintenance, one for retention: each occupies its connection with an advisory lock while it runs. */
const DIRECT_CONNECTIONS = 2;
/** Beside its pool a process has the direct ones, one each for heartbeat, leases and LISTEN, and with several databases one to watch it. */
export const OTHER_CONNECTIONS = DIRECT_CONNECTIONS + 4;
const COMMAND_CONNECTIONS = 40;

type Pools = {
  sql: Sql;
  /** Connects to PostgreSQL itself, even if `DATABASE_URL` points to PgBouncer. */
  direct: Sql;
};

export type Installation = Pools & {
  /** The database of `sql`, the home database. */
  address: DatabaseAddress;
  map: ShardMap;
  /** The other databases of the map of shards. */
  databases: readonly OtherDatabase[];
  /** The first key seals; all of them open. */
  secretKeys: Keys;
  /** Whether all databases are sealed with the first key; otherwise `halcyon rekey` is due. */
  isKeyAdopted: boolean;
  /** The migrations that were applied to the home database at this opening. */
  applied: readonly string[];
  /** The migrations that were applied to each of the others. */
  migrated: readonly MigratedDatabase[];
  /** Resolves when the embedded server ends by itself; never without one. */
  databaseEnded: Promise<string>;
  close: () => Promise<void>;
};

type Database = { address: DatabaseAddress; ended: Promise<string>; stop: () => Promise<void> };

/** Returns how many connections all processes may open together: their pools, six more for each, and some for commands. */
const connectionsOf = ({ processes, database }: Config): number =>
  processes * (database.connections + OTHER_CONNECTIONS) + COMMAND_CONNECTIONS;

async function openDatabase(config: Config, log: Log, usesRunningServer: boolean): Promise<Database> {
  const external = { ended: new Promise<string>(() => {}), stop: async () => {} };
  if (config.database.url !== undefined) return { address: { kind: 'url', url: config.database.url }, ...external };
  // A short-lived command uses the embedded server of a running Halcyon and does not stop it.
  const address = usesRunningServer ? await findRunning(config.dataDir) : undefined;
  if (address !== undefined) return { address, ...external };
  const embedded = await startEmbedded({ dataDir: config.dataDir, connectionsMax: connectionsOf(config), log });
  return { address: embedded.address, ended: embedded.exited, stop: embedded.stop };
}

/** Returns the operator's keys, or those of the key file, which is generated with the embedded database. */
async function openSecretKeys(config: Config): Promise<{ keys: Keys; from: string }> {
  const { secretKeys, dataDir } = config;
  if (secretKeys === undefined) return openKeyFile(dataDir, Date.now());
  const others = secretKeys.length > 1 ? ', like HALCYON_SECRET_KEY_OTHER,' : '';
  return { keys: secretKeys, from: `HALCYON_SECRET_KEY${others}` };
}

/**
 * Opens the connection pools of a process. `worker` is the id of its delivery worker; it is part of the application name in
 * pg_stat_activity, as in shard_lease.
 */
export function openPools(
  { database }: Pick<Config, 'database'>,
  address: DatabaseAddress,
  { worker, silenceMs, log }: { worker?: number; silenceMs?: number; log: Log },
): Pools {
  const { connections, directUrl } = database;
  const applicationName = worker === undefined ? 'halcyon' : `halcyon ${worker}`;
  const isShared = directUrl !== undefined;
  const timeout = silenceMs === undefined ? {} : { silenceMs };
  const onRefused = (error: Error): void =>
    log.warn({ reason: String(error) }, 'database refuses further connections; statements wait for the open ones');
  const directAddress = isShared ? ({ kind: 'url', url: directUrl } as const) : address;
  return {
    sql: openPool(address, { connections, applicationName, isShared, onRefused, ...timeout }),
    direct: openPool(directAddress, { connections: DIRECT_CONNECTIONS, applicationName }),
  };
}

export async function closePools({ sql, direct }: Pools, { databaseMs }: Config['stopping']): Promise<void> {
  const timeout = databaseMs / 1_000;
  await Promise.all([sql.end({ timeout }), direct.end({ timeout })]);
}

/** Returns a function that opens the pools of another database of the map of shards, and prepares it before it is used. */
export function createPoolOpener(
  config: Pick<Config, 'database' | 'stopping'>,
  { secretKeys: keys, worker, log }: { secretKeys: Keys; worker?: number; log: Log },
): AppDeps['openPools'] {
  const { silenceMs, ...database } = config.database;
  const use = { silenceMs, log, ...(worker === undefined ? {} : { worker }) };
  const keysFrom = 'HALCYON_SECRET_KEY';
  return ({ name, url, home, identity }) => {
    const pools = openPools({ database: { ...database, silenceMs, directUrl: undefined } }, { kind: 'url', url }, use);
    return {
      ...pools,
      prepare: async () =>
        void (await prepareDatabase(pools.direct, { name, home, identity, keys, keysFrom, hasUsers })),
      close: async () => closePools(pools, config.stopping),
    };
  };
}

type OpenOptions = {
  usesRunningServer: boolean;
  worker?: number;
  /** Whether every database of the map must be available; otherwise a missing one is logged. */
  requiresAll?: boolean;
  /** Whether a setting that assigns the shards differently than the map gives addresses only. */
  followsMap?: boolean;
  /** `database`: the name of a database other than the home database. */
  onMigration?: (name: string, database?: string) => void;
};

/** Opens the databases (and starts the embedded one without `DATABASE_URL`) and migrates them, the home database first. */
export async function openInstallation(config: Config, log: Log, options: OpenOptions): Promise<Installation> {
  const { usesRunningServer, worker, requiresAll = false, followsMap, onMigration } = options;
  const database = await openDatabase(config, log, usesRunningServer);
  const { address } = database;
  // Commands have no time limit for statements.
  const use = {
    log,
    ...(worker === undefined ? {} : { worker }),
    ...(usesRunningServer ? {} : { silenceMs: config.database.silenceMs }),
  };
  const pools = openPools(config, address, use);
  const { sql, direct } = pools;
  const others: OtherDatabase[] = [];
  const close = async () => {
    await Promise.all([pools, ...others].map((one) => closePools(one, config.stopping)));
    await database.stop();
  };
  try {
    const { directUrl } = config.database;
    const directAddress: DatabaseAddress = directUrl === undefined ? address : { kind: 'url', url: directUrl };
    await warnIfLate(log, nameOf(directAddress), checkServer(direct));
    if (directUrl !== undefined) {
      await warnIfLate(log, nameOf(address), checkServer(sql));
      await checkPooled(sql);
    }
    const { keys: secretKeys, from } = await openSecretKeys(config);
    const { applied } = await migrate(direct, MIGRATIONS, (name) => onMigration?.(name));
    const change = await findCollationChange(direct);
    if (change !== undefined)
      log.warn({ ...change, remedy: remedyOfCollations(change) }, 'collations have changed; indexes may be wrong');
    const isKeyAdopted = await checkSealingKey(direct, { keys: secretKeys, from });
    const opening = {
      config: config.database,
      log,
      home: direct,
      keys: secretKeys,
      keysFrom: from,
      requiresAll,
      followsMap,
      openPools: (other: DatabaseAddress) =>
        openPools({ database: { ...config.database, directUrl: undefined } }, other, use),
      ...(onMigration && { onMigration }),
    };
    const opened = await openOtherDatabases(opening, others);
    return {
      ...pools,
      ...opened,
      address,
      secretKeys,
      isKeyAdopted: isKeyAdopted && opened.isKeyAdopted,
      applied,
      databaseEnded: database.ended,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
