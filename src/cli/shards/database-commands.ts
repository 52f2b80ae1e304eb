/** Opens the databases of the map for a command. */
import { SHARDS } from '#core/ids.ts';
import type { Log } from '#core/log.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { createSealer, type Sealer } from '#db/seal.ts';
import { nameOf } from '#db/servers.ts';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import { LOCKS, tryUnderLock } from '#db/advisory-lock.ts';
import { readIdentity, readVersion } from '#shards/map-sql.ts';
import { formatShards, HOME, nameIn, shardsIn, type ShardMap } from '#shards/map.ts';
import type { Place } from '#shards/move/move.ts';
import { newIdIn } from '#shards/move/moves.ts';
import { identify, prepareDatabase } from '#shards/adopt.ts';
import { readConfig } from '#config/config.ts';
import { createCommandLog } from '../command-context.ts';
import { UsageError, UserError } from '../explain.ts';
import { openInstallation, type Installation } from '../installation.ts';
import { warnIfLate } from '../late.ts';
import type { Terminal } from '../terminal.ts';

const CONNECTIONS = 2;

/** A database that may be new: `prepare` applies the migrations, and checks its key. */
type Found = Place & { prepare: () => Promise<void> };

export type Databases = {
  home: Sql;
  homeName: string;
  /** How long processes serve without the home database. */
  homeOutageMs: number;
  map: ShardMap;
  sealer: Sealer;
  /** Throws a `UserError` if the database is not reachable. */
  place: (id: number) => Place;
  isReachable: (id: number) => boolean;
  /** Returns the database of that name or address. */
  find: (nameOrUrl: string) => Promise<Found>;
  /** Lets only one process change the map. */
  alone: (work: () => Promise<void>) => Promise<void>;
};

type Opened = {
  installation: Installation;
  homeUrl: string;
  homeOutageMs: number;
  map: ShardMap;
  pools: Sql[];
  log: Log;
};

function placesOf({ installation, homeUrl, map }: Opened): Pick<Databases, 'place' | 'isReachable'> {
  const { databases, direct } = installation;
  const isReachable = (id: number): boolean => id === HOME || databases.some((one) => one.id === id && one.isPrepared);
  const place = (id: number): Place => {
    if (id === HOME) return { id, name: nameIn(map, id), sql: direct, url: homeUrl };
    const found = databases.find((one) => one.id === id);
    if (found?.address.kind !== 'url' || !found.isPrepared)
      throw new UserError(`${nameIn(map, id)} is not reachable: start its PostgreSQL, then run this again`);
    return { id, name: found.name, sql: found.direct, url: found.address.url };
  };
  return { place, isReachable };
}

/** Opens a database by its address; it may be one of the map. */
async function openByUrl(url: string, { installation, map, pools, log }: Opened, terminal: Terminal): Promise<Found> {
  const name = nameOf({ kind: 'url', url });
  const sql = openPool({ kind: 'url', url }, { connections: CONNECTIONS, applicationName: 'halcyon' });
  pools.push(sql);
  const identity = await warnIfLate(log, name, identify(sql, name, '--to'));
  const known = map.databases.find((one) => one.identity === identity);
  const { identity: home } = await readIdentity(installation.direct);
  const prepare = async (): Promise<void> =>
    void (await prepareDatabase(sql, {
      name,
      home,
      keys: installation.secretKeys,
      keysFrom: 'HALCYON_SECRET_KEY',
      setting: '--to',
      hasUsers,
      onMigration: (migration) => terminal.warn(`Applying ${migration} to ${name}`),
    }));
  return { id: known?.id ?? newIdIn(map), name: known?.name ?? name, sql, url, prepare };
}

const isUrl = (text: string): boolean => /^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text);

async function findIn(opened: Opened, terminal: Terminal, nameOrUrl: string): Promise<Found> {
  if (isUrl(nameOrUrl)) return openByUrl(nameOrUrl, opened, terminal);
  const { databases } = opened.map;
  const found = nameOrUrl === 'home' ? databases[0] : databases.find(({ name }) => name === nameOrUrl);
  // A database of the map was prepared when it was opened.
  if (found !== undefined) return { ...placesOf(opened).place(found.id), prepare: async () => {} };
  const names = [...new Set(['home', ...databases.map(({ name }) => name)])].join(', ');
  throw new UsageError(`--to ${nameOrUrl} is no database of the map: use ${names}, or a postgres:// address`);
}

async function openAll(terminal: Terminal): Promise<Opened> {
  const config = readConfig(terminal.env, terminal.cwd);
  const { url, directUrl, shards, homeOutageMs } = config.database;
  if (url === undefined) throw new UserError('Shards are moved between databases of servers: set DATABASE_URL');
  const log = createCommandLog(terminal, config.logLevel);
  // A move changes the map, so the setting differs from it until it is corrected.
  const installation = await openInstallation(config, log, { usesRunningServer: true, followsMap: true });
  const { map } = installation;
  const opened = { installation, homeUrl: directUrl ?? url, homeOutageMs, map, pools: [], log };
  if (shards === undefined || map.version > 0) return opened;
  await installation.close();
  throw new UserError(
    'SHARD_DATABASES is set, and there is no map yet: start Halcyon once, which makes it, or remove the setting',
  );
}

export async function withDatabases(terminal: Terminal, run: (databases: Databases) => Promise<void>): Promise<void> {
  const opened = await openAll(terminal);
  const { installation, homeUrl, homeOutageMs, map, pools } = opened;
  const { direct: home, secretKeys, isKeyAdopted } = installation;
  try {
    await run({
      home,
      homeName: nameOf({ kind: 'url', url: homeUrl }),
      homeOutageMs,
      map,
      sealer: createSealer(...secretKeys),
      ...placesOf(opened),
      find: (nameOrUrl) => findIn(opened, terminal, nameOrUrl),
      alone: async (work) => {
        if (!isKeyAdopted) throw new UserError('The databases are sealed with several keys: run halcyon rekey first');
        const workOnMap = async (): Promise<void> => {
          if ((await readVersion(home)) !== map.version)
            throw new UserError('The map of shards has changed since this command began: run it again');
          await work();
        };
        if (!(await tryUnderLock(home, LOCKS.shardsCommand, workOnMap)))
          throw new UserError('Another halcyon shards command is running: wait until it has ended');
      },
    });
  } finally {
    await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })));
    await installation.close();
  }
}

/** Returns the command that moves the shards. */
export function moveCommand(shards: readonly number[], to: string): string {
  return `halcyon shards move ${formatShards(shards).replaceAll(' ', '')} --to ${to}`;
}

/** Parses shards such as `64-127,200`. */
export function parseShards(text: string): number[] {
  const shards = text.split(/[,\s]+/).flatMap((part) => {
    const [, first = '', last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(part) ?? [];
    const range = { first: Number(first), last: Number(last) };
    if (first === '' || range.first > range.last || range.last >= SHARDS)
      throw new UsageError(`"${part}" is no range of shards: write numbers from 0 to ${SHARDS - 1}, as in 64-127,200`);
    return shardsIn(range);
  });
  return [...new Set(shards)].toSorted((a, b) => a - b);
}
