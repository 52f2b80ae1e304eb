/** Checks of the server of each database, and of several databases: each shard has one owner, which alone delivers it, and changes reach all. */
import type { Config } from '#config/config.ts';
import type { Clock } from '#core/clock.ts';
import { DatabaseError, openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { openAddress, listLeasedShards, readIdentity, readMap } from '#shards/map-sql.ts';
import { assignedIn, describeMap, requireHome, requireOwnStores, requireSameOwners, identify } from '#shards/adopt.ts';
import { formatShards, HOME, nameIn, shardsOf, UNOWNED, type MapDatabase, type ShardMap } from '#shards/map.ts';
import { readWaiting } from '#shards/outbox-sql.ts';
import { OTHER_CONNECTIONS } from '../installation.ts';
import { countOf, fail, graded, ok, orOk, spanOf, warn, type Check, type Database, type Verdict } from './check.ts';
import { readSecondsAhead } from './table-checks.ts';
import { withTimeouts, type Server, readServer, readSession } from './doctor-sql.ts';
import { checkDatabaseText, checkPooled, checkServer, findCollationChange, remedyOfCollations } from '#db/usable.ts';

/** The minimum to detect whether each connection has its own session. */
const POOL = 2;

export function openDatabase(config: Config, clock: Clock, address: DatabaseAddress): Database {
  const { directUrl, silenceMs } = config.database;
  const options = { connections: POOL, applicationName: 'halcyon', silenceMs };
  const sql = openPool(address, { ...options, isShared: true });
  return {
    config,
    clock,
    sql,
    direct: directUrl === undefined ? sql : openPool({ kind: 'url', url: directUrl }, options),
  };
}

// The server of a database: it can be used, keeps what it accepts, and has connections. Needs no tables.

/** What is lost or slow while a setting is off. */
const SWITCHES = {
  fsync: { state: 'fail', effect: 'a crash of the machine destroys the database' },
  full_page_writes: { state: 'warn', effect: 'a crash may tear pages, unless the file system prevents that' },
  synchronous_commit: { state: 'fail', effect: 'a crash loses events that were accepted' },
  autovacuum: { state: 'fail', effect: 'deleted rows are not removed, which slows everything down' },
} as const;
const WORK_MEM_KB = { min: 1_024, max: 512 * 1_024 };

const set = (name: string, value: string): string =>
  `In psql: alter system set ${name} = ${value}; select pg_reload_conf()`;

/** Reads the server of a connection. */
function inspectServer(sql: Sql): Promise<Server> {
  return withTimeouts(sql, (tx) => readServer(tx, Object.keys(SWITCHES)));
}

/** Checks that the server can be used; throws a `DatabaseError` if it cannot. */
const USABLE: Check<Database> = {
  name: 'database',
  isRequired: true,
  run: async ({ sql, direct }) => {
    await checkServer(direct);
    if (sql !== direct) {
      await checkServer(sql);
      await checkPooled(sql);
    }
    await checkDatabaseText(direct);
    const { isStandby, isReadOnly } = await inspectServer(direct);
    const primary = 'Point DATABASE_URL to the primary, for example by host=one,two with target_session_attrs=primary';
    if (isStandby) return [fail('the server is a read-only standby', primary)];
    const advice =
      'Free disk space if the provider set it for that; then reset it for the server, the database and the role';
    return isReadOnly ? [fail('default_transaction_read_only is on: every write is refused', advice)] : [];
  },
};

const DURABLE: Check<Database> = {
  name: 'database',
  run: async ({ direct }) => {
    const { off, version, workMemKb } = await inspectServer(direct);
    const change = await findCollationChange(direct);
    const found = Object.entries(SWITCHES)
      .filter(([name]) => off.includes(name))
      .map(([name, { state, effect }]): Verdict => {
        return { state, message: `${name} is off: ${effect}`, advice: set(name, 'on') };
      });
    if (workMemKb < WORK_MEM_KB.min || workMemKb > WORK_MEM_KB.max) {
      const message = `work_mem is ${workMemKb} kB, the memory limit of each sort of each connection`;
      found.push(warn(message, `${set('work_mem', "'4MB'")}; use 1 MB to 512 MB`));
    }
    if (change !== undefined) {
      const message = `the collations have version ${change.actual}, but the indexes were built with ${change.recorded}: they may be wrong`;
      found.push(warn(message, remedyOfCollations(change)));
    }
    return orOk(found, `PostgreSQL ${version}, with durable settings`);
  },
};

const CONNECTIONS: Check<Database> = {
  name: 'connections',
  run: async ({ direct, config }) => {
    const { connections, connectionsMax } = await inspectServer(direct);
    const needed = config.database.connections + OTHER_CONNECTIONS;
    const used = `${connections} of ${connectionsMax} connections are used`;
    const sum = `processes × (DATABASE_CONNECTIONS + ${OTHER_CONNECTIONS})`;
    const advice = `Raise max_connections, lower DATABASE_CONNECTIONS (${sum} must fit), or use PgBouncer`;
    if (needed > connectionsMax) return [fail(`${used}; one process may need ${needed}, more than the limit`, advice)];
    const message = `${used}; one more process may need ${needed}`;
    if (needed <= connectionsMax - connections) return [ok(message)];
    return [warn(`${message}, which are not free`, advice)];
  },
};

/** The checks of every database that the other checks need. */
export const SERVER_CHECKS: readonly Check<Database>[] = [USABLE, DURABLE, CONNECTIONS];

/** A pooler may assign different sessions while others are in use, so one try is not enough. */
const TRIES = 5;

/** Returns whether two open connections share a server session, as with PgBouncer in transaction mode. */
async function isPooled(sql: Sql): Promise<boolean> {
  using first = await sql.reserve();
  using second = await sql.reserve();
  for (let tries = 0; tries < TRIES; tries += 1)
    if ((await readSession(first)) === (await readSession(second))) return true;
  return false;
}

/** Session locks, LISTEN and migrations need a dedicated session. Concurrent statements could get the shared session that this detects. */
export const SESSIONS: Check<Database> = {
  name: 'sessions',
  run: async ({ sql, direct, config: { database } }) => {
    const name = database.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
    const advice = 'Set DATABASE_DIRECT_URL to PostgreSQL itself: docs/operating.md, "PgBouncer"';
    if (await isPooled(direct)) return [fail(`${name} points to a pooler in transaction mode`, advice)];
    if (sql !== direct && (await inspectServer(sql)).databaseId !== (await inspectServer(direct)).databaseId) {
      const message = 'DATABASE_URL and DATABASE_DIRECT_URL point to different databases';
      return [fail(message, 'Point both to the same database of the same primary')];
    }
    return [ok(`${database.url === undefined ? 'the connection' : name} leads to PostgreSQL without a pooler`)];
  },
};

// The databases of a map.

/** A database of the map, opened for checks. */
export type Member = MapDatabase & { context: Database };

/**
 * `members`: the databases whose address can be read, the home database first; `sealed`: the names of the others. `readable`: the
 * members with the schema of this version.
 */
export type Several = { home: Database; map: ShardMap; members: Member[]; sealed: string[]; readable: Member[] };

export async function openMembers(home: Database): Promise<Several> {
  const { config, clock } = home;
  const map = await withTimeouts(home.direct, readMap);
  const members: Member[] = [];
  const sealed: string[] = [];
  for (const database of map.databases) {
    if (database.address === null) {
      members.push({ ...database, context: home });
      continue;
    }
    try {
      if (config.secretKeys === undefined) throw new Error('There is no HALCYON_SECRET_KEY');
      const url = openAddress(createSealer(...config.secretKeys), database) ?? '';
      const ownConfig = { ...config, database: { ...config.database, url, directUrl: undefined } };
      members.push({ ...database, context: openDatabase(ownConfig, clock, { kind: 'url', url }) });
    } catch {
      sealed.push(database.name);
    }
  }
  return { home, map, members, sealed, readable: [] };
}

/** Returns the verdict on what throws a `DatabaseError`, with which no process would start. */
async function refusalOf(act: () => Promise<void>): Promise<Verdict[]> {
  try {
    await act();
    return [];
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    return [fail(error.message, 'No process starts with this setting')];
  }
}

async function identityAt(url: string, name: string): Promise<string | undefined> {
  await using sql = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'halcyon' });
  return await identify(sql, name);
}

/** Compares `SHARD_DATABASES` with the map. */
async function compareSetting({ map, members, home: { config, direct } }: Several): Promise<Verdict[]> {
  const { shards, url: homeUrl } = config.database;
  if (shards === undefined || homeUrl === undefined) return [];
  const all = assignedIn(shards, homeUrl);
  if (map.version === 0) {
    const refusal = await refusalOf(() => withTimeouts(direct, (tx) => requireOwnStores(tx, all[0])));
    const none = 'there is no map yet, so one database owns all shards';
    return refusal.length > 0 ? refusal : [warn(none, 'halcyon migrate, or a start, makes the map')];
  }
  const assigned = await Array.fromAsync(all, async ({ url, name, shards: ofOne }) => {
    const known = members.find(({ context, id }) =>
      url === undefined ? id === HOME : context.config.database.url === url,
    );
    const identity = known === undefined && url !== undefined ? await identityAt(url, name) : undefined;
    const id = known?.id ?? map.databases.find((database) => database.identity === identity)?.id;
    return { shards: ofOne, id };
  });
  return refusalOf(async () => requireSameOwners(map, assigned));
}

/** Checks that the database of `DATABASE_URL` is in no other map. */
export const HOME_CHECK: Check<Database> = {
  name: 'map',
  isRequired: true,
  run: ({ direct }) => refusalOf(async () => requireHome(await withTimeouts(direct, readIdentity))),
};

/** Checks whether every shard has an owner, and whether the setting has the same owners. */
export const MAP_CHECK: Check<Several> = {
  name: 'map',
  run: async (several) => {
    const { map, sealed } = several;
    const restore = 'Restore the key, or start once with SHARD_DATABASES, which writes the address again';
    const found = sealed.map((name) =>
      fail(`the address of ${name} cannot be decrypted with HALCYON_SECRET_KEY`, restore),
    );
    const unowned = shardsOf(map, UNOWNED);
    if (unowned.length > 0) {
      const advice = 'No process starts. Insert the missing rows into shard_owner of the home database, or restore it';
      const message = `no database owns the shards ${formatShards(unowned)}: version ${map.version} of the map has a gap`;
      return [...found, fail(message, advice)];
    }
    const all = [...found, ...(await compareSetting(several))];
    return map.version === 0 ? all : orOk(all, `version ${map.version} of the map: ${describeMap(map)}`);
  },
};

/** Returns the check that a database is the one in the map, and belongs to this home database. */
export function identityCheck({ identity, name }: Member, home: string | undefined): Check<Database> {
  return {
    name: 'map',
    isRequired: true,
    run: async ({ direct }) => {
      const found = await withTimeouts(direct, readIdentity);
      const other = 'another database than that of the map is at this address';
      if (found.identity !== identity) return [fail(other, 'Correct its URL in SHARD_DATABASES')];
      if (found.home === home) return [ok(`it is the database ${name} of the map`)];
      return [fail('it belongs to the map of another home database', 'Set DATABASE_URL to that home database')];
    },
  };
}

const namesOf = (members: readonly Member[]): string => members.map(({ name }) => name).join(' and ');

const MOVE =
  'During halcyon shards move this lasts at most seconds. Otherwise run the same move again, which continues it, or abort it by --abort';

/** Exactly the owner of each shard has its lease: without one nothing is delivered, and with two a delivery may be sent twice. */
export const LEASES_CHECK: Check<Several> = {
  name: 'leases',
  run: async ({ map, readable }) => {
    const owned = map.owners.map((owner, shard) => ({ owner, shard, by: [] as Member[] }));
    for (const member of readable)
      for (const shard of await withTimeouts(member.context.direct, listLeasedShards)) owned[shard]?.by.push(member);
    /** Returns a verdict for each group of databases that deliver such shards. */
    const on = (
      isWrong: (one: (typeof owned)[number]) => boolean,
      messageOf: (shards: string, names: string) => string,
      advice = MOVE,
    ): Verdict[] => {
      const wrong = owned.filter((one) => one.owner !== UNOWNED && isWrong(one));
      return [...Map.groupBy(wrong, ({ by }) => namesOf(by))].map(([names, group]) =>
        fail(messageOf(formatShards(group.map(({ shard }) => shard)), names), advice),
      );
    };
    const found = [
      ...on(
        ({ by }) => by.length > 1,
        (shards, names) => `two databases deliver the shards ${shards}: ${names}`,
        `${MOVE}, or delete the rows of these shards from shard_lease of the database that does not own them`,
      ),
      ...on(
        ({ by, owner }) => by.length === 1 && by[0]?.id !== owner,
        (shards, name) => `${name} delivers the shards ${shards}, which it does not own`,
      ),
      ...on(
        ({ by, owner }) => by.length === 0 && readable.some(({ id }) => id === owner),
        (shards) => `no database delivers the shards ${shards}`,
      ),
    ];
    const count = owned.filter(({ by }) => by.length === 1).length;
    const message = `${countOf(count, 'shard')} of ${countOf(readable.length, 'database')} have one lease each`;
    return map.version === 0 ? found : orOk(found, message);
  },
};

/** Days end at midnight of the server that writes an event, and the age of the outbox compares two servers. */
const APART_SECONDS = { warn: 1, fail: 5 };
const OUTBOX_SECONDS = { warn: 60, fail: 600 };

export const SEVERAL_CHECKS: readonly Check<Several>[] = [
  {
    name: 'clocks',
    run: async ({ readable }) => {
      const clocks = [{ name: 'this machine', seconds: 0 }];
      for (const { name, context } of readable)
        clocks.push({ name, seconds: await withTimeouts(context.direct, (tx) => readSecondsAhead(tx, context)) });
      const slow = clocks.reduce((one, other) => (other.seconds < one.seconds ? other : one));
      const fast = clocks.reduce((one, other) => (other.seconds > one.seconds ? other : one));
      const seconds = fast.seconds - slow.seconds;
      if (seconds <= APART_SECONDS.warn)
        return [ok(`those of this machine and ${countOf(readable.length, 'database')} differ by less than 1 s`)];
      const message = `the clock of ${fast.name} is ${seconds.toFixed(1)} s ahead of ${slow.name}`;
      const advice = 'Synchronise all machines by NTP (timedatectl set-ntp true)';
      return [graded({ fail: seconds > APART_SECONDS.fail, warn: true }, message, advice)];
    },
  },
  {
    // Processes open a pool for each database on a server.
    name: 'servers',
    run: async ({ readable }) => {
      const uses = await Array.fromAsync(readable, async (member) => {
        return { member, server: await inspectServer(member.context.direct) };
      });
      return [...Map.groupBy(uses, ({ server }) => server.id).values()].flatMap((group) =>
        group.slice(0, 1).map(({ member, server: { connections, connectionsMax } }) => {
          const { processes, database } = member.context.config;
          const each = database.connections + OTHER_CONNECTIONS;
          const needed = processes * group.length * each;
          const names = namesOf(group.map((one) => one.member));
          const sum = `${processes} × ${countOf(group.length, 'database')} × ${each}`;
          const message = `${names}: ${connections} of ${connectionsMax} connections are used; ${countOf(processes, 'process', 'processes')} of this machine may need ${needed} (${sum})`;
          const advice =
            'Raise max_connections, lower DATABASE_CONNECTIONS or PROCESSES, or move a database to another server';
          const is = { fail: needed > connectionsMax, warn: needed + connections > connectionsMax };
          return graded(is, message, advice);
        }),
      );
    },
  },
  {
    name: 'outbox',
    run: async ({ home: { direct }, map }) => {
      const waiting = await withTimeouts(direct, readWaiting);
      const advice =
        'Processes apply them in order: check that the database is available, that a process runs, and its log';
      const found = waiting.map(({ database, changes, oldestSeconds: seconds }) => {
        const message = `${countOf(changes, 'change')} for ${nameIn(map, database)}, the oldest for ${spanOf(Math.max(0, seconds))}`;
        const is = { fail: seconds > OUTBOX_SECONDS.fail, warn: seconds > OUTBOX_SECONDS.warn };
        return graded(is, message, advice);
      });
      return orOk(found, 'every database has applied all changes');
    },
  },
];
