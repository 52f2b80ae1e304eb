/** Opens what every command needs: migrated databases and the keys for secrets at rest. */
import { findRunning, startEmbedded } from '#db/embedded.ts';
import { migrate, MIGRATIONS } from '#db/migrate.ts';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { checkPooled, checkServer, findCollationChange, remedyOfCollations } from '#db/usable.ts';
import { checkSealingKey } from '#db/seal.ts';
import { nameOf } from '#db/servers.ts';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Config } from '#config/config.ts';
import type { AppDeps } from '#server/app.ts';
import { prepareDatabase } from '#shards/adopt.ts';
import { openKeyFile } from './key-file.ts';
import {
  warnIfLate,
  openOtherDatabases,
  type OpeningOptions,
  type OtherDatabase,
  type OtherDatabases,
  type Pools,
} from './other-databases.ts';

/** One for partition maintenance, one for retention: each occupies its connection with an advisory lock while it runs. */
const DIRECT_CONNECTIONS = 2;
/** Beside its pool a process has the direct ones, one each for heartbeat, leases and LISTEN, and with several databases one to watch it. */
export const OTHER_CONNECTIONS = DIRECT_CONNECTIONS + 4;
const COMMAND_CONNECTIONS = 40;

export type Installation = Pools &
  OtherDatabases &
  AsyncDisposable & {
    /** The database of `sql`, the home database. */
    address: DatabaseAddress;
    /** The first key seals; all of them open. */
    secretKeys: Keys;
    /** The migrations that were applied to the home database at this opening. */
    applied: readonly string[];
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

/** `sessionName`: of a process that serves or delivers. `silenceMs`: undefined for commands, whose statements have no time limit. */
type Use = { sessionName?: string | undefined; silenceMs?: number | undefined; log: Log };

/** Opens the connection pools of a process. */
export function openPools(
  { connections, directUrl }: Config['database'],
  address: DatabaseAddress,
  { sessionName: applicationName = 'halcyon', silenceMs, log }: Use,
): Pools {
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

/** Opens the pools of another database of the map of shards, which has no pooler. */
const openOther = (config: Pick<Config, 'database'>, address: DatabaseAddress, use: Use): Pools =>
  openPools({ ...config.database, directUrl: undefined }, address, use);

export async function closePools({ sql, direct }: Pools, { databaseMs }: Config['stopping']): Promise<void> {
  const timeout = databaseMs / 1_000;
  await Promise.all([sql.end({ timeout }), direct.end({ timeout })]);
}

/** Returns a function that opens the pools of another database of the map of shards, and prepares it before it is used. */
export function createPoolOpener(
  config: Pick<Config, 'database' | 'stopping'>,
  { secretKeys: keys, sessionName, log }: Use & { secretKeys: Keys },
): AppDeps['openPools'] {
  const { silenceMs } = config.database;
  const keysFrom = 'HALCYON_SECRET_KEY';
  return ({ name, url, home, identity }) => {
    const pools = openOther(config, { kind: 'url', url }, { silenceMs, log, sessionName });
    return {
      ...pools,
      prepare: async () =>
        void (await prepareDatabase(pools.direct, { name, home, identity, keys, keysFrom, hasUsers })),
      close: async () => closePools(pools, config.stopping),
    };
  };
}

/** Opens the databases (and starts the embedded one without `DATABASE_URL`) and migrates them, the home database first. */
export async function openInstallation(
  config: Config,
  log: Log,
  options: OpeningOptions & { usesRunningServer: boolean; sessionName?: string },
): Promise<Installation> {
  const { usesRunningServer, sessionName, onMigration } = options;
  const database = await openDatabase(config, log, usesRunningServer);
  const { address } = database;
  const use = { log, sessionName, silenceMs: usesRunningServer ? undefined : config.database.silenceMs };
  const pools = openPools(config.database, address, use);
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
    const opening = { ...options, config: config.database, log, home: direct, keys: secretKeys, keysFrom: from };
    const opened = await openOtherDatabases(opening, others, (other) => openOther(config, other, use));
    return {
      ...pools,
      ...opened,
      address,
      secretKeys,
      isKeyAdopted: isKeyAdopted && opened.isKeyAdopted,
      applied,
      databaseEnded: database.ended,
      close,
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
