/** Checks of several databases: each shard has one owner, only its owner delivers it, and changes reach the other databases. */
import { readDatabaseTime } from '#db/database-clock.ts';
import { DatabaseError, openPool, type DatabaseAddress } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import {
  addressBinding,
  assignedIn,
  describeMap,
  requireHome,
  requireOwnStores,
  requireSameOwners,
  type Assigned,
} from '#shards/adopt.ts';
import { listLeasedShards, readIdentity, readMap } from '#shards/map-sql.ts';
import { formatShards, HOME, undivided, type MapDatabase, type ShardMap } from '#shards/map.ts';
import { identify } from '#shards/prepare.ts';
import { SHARDS } from '#core/ids.ts';
import { OTHER_CONNECTIONS } from '../../installation.ts';
import { countOf, fail, ok, spanOf, warn, type Finding, type DoctorContext } from '../finding.ts';
import { countOutbox, listOwners, readServerUse } from '../databases-sql.ts';
import { withTimeouts } from '../doctor-sql.ts';

/** A database of the map, opened for checks. */
export type Member = MapDatabase & { context: DoctorContext };

const CONNECTIONS = 2;

/** `members`: the databases whose address can be read. */
export type Opened = { map: ShardMap; owners: ReadonlyMap<number, number>; members: Member[]; findings: Finding[] };

/** Returns the map and opens its databases; the home database is the first member. */
export async function openMembers(home: DoctorContext): Promise<Opened> {
  const { config, clock } = home;
  const [map, owners] = await withTimeouts(home.direct, async (tx) => [await readMap(tx), await listOwners(tx)]);
  const members: Member[] = [];
  const findings: Finding[] = [];
  for (const database of map.databases) {
    const { id, name, address } = database;
    if (address === null) {
      members.push({ ...database, context: home });
      continue;
    }
    try {
      if (config.secretKeys === undefined) throw new Error('There is no HALCYON_SECRET_KEY');
      const url = createSealer(...config.secretKeys).open(address, addressBinding(id));
      const options = { connections: CONNECTIONS, applicationName: 'halcyon', silenceMs: config.database.silenceMs };
      const sql = openPool({ kind: 'url', url } satisfies DatabaseAddress, options);
      const ownConfig = { ...config, database: { ...config.database, url, directUrl: undefined } };
      members.push({ ...database, context: { config: ownConfig, clock, sql, direct: sql } });
    } catch {
      const advice = 'Restore the key, or start once with SHARD_DATABASES, which writes the address again';
      findings.push(fail('map', `the address of ${name} cannot be decrypted with HALCYON_SECRET_KEY`, advice));
    }
  }
  const isUndivided = map.version === 0;
  return { map, owners: isUndivided ? ownersOf(undivided('')) : owners, members, findings };
}

const ownersOf = ({ owners }: ShardMap): ReadonlyMap<number, number> => new Map(owners.entries());

/** Compares `SHARD_DATABASES` with the map. */
async function compareSetting({ map, members }: Opened, { config, direct }: DoctorContext): Promise<Finding[]> {
  const { shards, url: homeUrl } = config.database;
  if (shards === undefined || homeUrl === undefined) return [];
  const [home] = assignedIn(shards, homeUrl);
  if (map.version === 0) {
    const refusal = await findRefusal(() => withTimeouts(direct, (tx) => requireOwnStores(tx, home)));
    const none = 'there is no map yet, so one database owns all shards';
    return refusal.length > 0 ? refusal : [warn('map', none, 'halcyon migrate, or a start, makes the map')];
  }
  const assigned: (Assigned & { id: number | undefined })[] = [];
  for (const one of assignedIn(shards, homeUrl)) {
    const known = members.find(({ context, id }) =>
      one.url === undefined ? id === HOME : context.config.database.url === one.url,
    );
    const identity = known === undefined && one.url !== undefined ? await identityAt(one.url, one.name) : undefined;
    assigned.push({ ...one, id: known?.id ?? map.databases.find((database) => database.identity === identity)?.id });
  }
  return findRefusal(async () => requireSameOwners(map, assigned));
}

/** Returns the `DatabaseError` with which a process would not start, as a finding; none if it would start. */
async function findRefusal(check: () => Promise<void>): Promise<Finding[]> {
  try {
    await check();
    return [];
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    return [fail('map', error.message, 'No process starts with this setting')];
  }
}

/** Checks that the database of `DATABASE_URL` is in no other map. */
export async function checkHome({ direct }: DoctorContext): Promise<Finding[]> {
  return findRefusal(async () => requireHome(await withTimeouts(direct, readIdentity)));
}

async function identityAt(url: string, name: string): Promise<string | undefined> {
  const sql = openPool({ kind: 'url', url }, { connections: 1, applicationName: 'halcyon' });
  try {
    return await identify(sql, name);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Checks whether every shard has an owner, and whether the setting has the same owners. */
export async function checkMap(opened: Opened, home: DoctorContext): Promise<Finding[]> {
  const { map, owners, findings } = opened;
  const unowned = Array.from({ length: SHARDS }, (_, shard) => shard).filter((shard) => !owners.has(shard));
  if (unowned.length > 0)
    return [
      ...findings,
      fail(
        'map',
        `no database owns the shards ${formatShards(unowned)}: version ${map.version} of the map has a gap`,
        'No process starts. Insert the missing rows into shard_owner of the home database, or restore it',
      ),
    ];
  const found = [...findings, ...(await compareSetting(opened, home))];
  return found.length > 0 || map.version === 0
    ? found
    : [ok('map', `version ${map.version} of the map: ${describeMap(map)}`)];
}

/** Checks that a database is the one in the map, and belongs to this home database. */
export async function checkIdentity({ identity, name, context }: Member, home: string): Promise<Finding[]> {
  const found = await withTimeouts(context.direct, readIdentity);
  if (found.identity !== identity)
    return [
      fail('map', 'another database than that of the map is at this address', 'Correct its URL in SHARD_DATABASES'),
    ];
  if (found.home === home) return [ok('map', `it is the database ${name} of the map`)];
  return [fail('map', 'it belongs to the map of another home database', 'Set DATABASE_URL to that home database')];
}

type Delivered = { shard: number; by: readonly Member[] };

const namesOf = (members: readonly Member[]): string => members.map(({ name }) => name).join(' and ');

/** Groups shards by their databases, for messages. */
function grouped(some: readonly Delivered[]): Map<string, number[]> {
  const groups = new Map<string, number[]>();
  for (const { shard, by } of some) groups.set(namesOf(by), [...(groups.get(namesOf(by)) ?? []), shard]);
  return groups;
}

const MOVE =
  'During halcyon shards move this lasts at most seconds. Otherwise run the same move again, which continues it, or abort it by --abort';

/**
 * Checks that exactly the owner of each shard has its lease: without one nothing is delivered, and with two a delivery may be sent
 * twice. `reachable` are the members whose schema is that of this version.
 */
export async function checkLeases({ owners }: Opened, reachable: readonly Member[]): Promise<Finding[]> {
  const leases = new Map<number, Member[]>();
  for (const member of reachable)
    for (const shard of await withTimeouts(member.context.direct, listLeasedShards))
      leases.set(shard, [...(leases.get(shard) ?? []), member]);
  const delivered = [...owners.keys()].map((shard): Delivered => ({ shard, by: leases.get(shard) ?? [] }));
  const twice = grouped(delivered.filter(({ by }) => by.length > 1));
  const elsewhere = grouped(delivered.filter(({ shard, by }) => by.length === 1 && by[0]?.id !== owners.get(shard)));
  const ids = new Set(reachable.map(({ id }) => id));
  const never = delivered.filter(({ shard, by }) => by.length === 0 && ids.has(owners.get(shard) ?? -1));
  const found = [...twice].map(([names, shards]) =>
    fail(
      'leases',
      `two databases deliver the shards ${formatShards(shards)}: ${names}`,
      `${MOVE}, or delete the rows of these shards from shard_lease of the database that does not own them`,
    ),
  );
  for (const [name, shards] of elsewhere)
    found.push(fail('leases', `${name} delivers the shards ${formatShards(shards)}, which it does not own`, MOVE));
  if (never.length > 0)
    found.push(
      fail('leases', `no database delivers the shards ${formatShards(never.map(({ shard }) => shard))}`, MOVE),
    );
  if (found.length > 0) return found;
  const count = delivered.filter(({ by }) => by.length === 1).length;
  return [ok('leases', `${countOf(count, 'shard')} of ${countOf(reachable.length, 'database')} have one lease each`)];
}

/** Days end at midnight of the server that writes an event, and the age of the outbox compares two servers. */
const CLOCK_WARN_SECONDS = 1;
const CLOCK_FAIL_SECONDS = 5;

/** Compares the clocks of this machine and of all databases. */
export async function checkAllClocks(members: readonly Member[]): Promise<Finding[]> {
  const ahead: { name: string; seconds: number }[] = [{ name: 'this machine', seconds: 0 }];
  for (const { name, context } of members) {
    const before = context.clock.now().getTime();
    const at = await withTimeouts(context.direct, readDatabaseTime);
    const localMs = (before + context.clock.now().getTime()) / 2;
    ahead.push({ name, seconds: (at.getTime() - localMs) / 1_000 });
  }
  ahead.sort((a, b) => a.seconds - b.seconds);
  const [slow, fast] = [ahead[0], ahead.at(-1)];
  if (slow === undefined || fast === undefined) return [];
  const seconds = fast.seconds - slow.seconds;
  const message = `the clock of ${fast.name} is ${seconds.toFixed(1)} s ahead of ${slow.name}`;
  const advice = 'Synchronise all machines by NTP (timedatectl set-ntp true)';
  if (seconds > CLOCK_FAIL_SECONDS) return [fail('clocks', message, advice)];
  if (seconds > CLOCK_WARN_SECONDS) return [warn('clocks', message, advice)];
  return [ok('clocks', `those of this machine and ${countOf(members.length, 'database')} differ by less than 1 s`)];
}

const OUTBOX_WARN_SECONDS = 60;
const OUTBOX_FAIL_SECONDS = 600;

/** Checks the age of changes of the home database that another database has not applied. */
export async function checkOutbox({ map }: Opened, { direct, clock }: DoctorContext): Promise<Finding[]> {
  const waiting = await withTimeouts(direct, countOutbox);
  const now = clock.now().getTime();
  const advice =
    'Processes apply them in order: check that the database is available, that a process runs, and its log';
  const found = waiting.map(({ database, changes, oldest }) => {
    const name = map.databases.find(({ id }) => id === database)?.name ?? `database ${database}`;
    const seconds = (now - oldest.getTime()) / 1_000;
    const message = `${countOf(changes, 'change')} for ${name}, the oldest for ${spanOf(Math.max(0, seconds))}`;
    if (seconds > OUTBOX_FAIL_SECONDS) return fail('outbox', message, advice);
    return seconds > OUTBOX_WARN_SECONDS ? warn('outbox', message, advice) : ok('outbox', message);
  });
  return found.length > 0 ? found : [ok('outbox', 'every database has applied all changes')];
}

/** Checks the connections of each server: processes open a pool for each database on it. */
export async function checkServers(members: readonly Member[]): Promise<Finding[]> {
  const servers = new Map<string, { members: Member[]; connectionsMax: number; connections: number }>();
  for (const member of members) {
    const use = await withTimeouts(member.context.direct, readServerUse);
    if (use === undefined) continue;
    servers.set(use.id, { ...use, members: [...(servers.get(use.id)?.members ?? []), member] });
  }
  return [...servers.values()].map(({ members: some, connectionsMax, connections }) => {
    const { processes, database } = some[0]?.context.config ?? { processes: 1, database: { connections: 0 } };
    const each = database.connections + OTHER_CONNECTIONS;
    const needed = processes * some.length * each;
    const message = `${namesOf(some)}: ${connections} of ${connectionsMax} connections are used; ${countOf(processes, 'process', 'processes')} of this machine may need ${needed} (${processes} × ${countOf(some.length, 'database')} × ${each})`;
    const advice =
      'Raise max_connections, lower DATABASE_CONNECTIONS or PROCESSES, or move a database to another server';
    if (needed > connectionsMax) return fail('servers', message, advice);
    return needed + connections > connectionsMax ? warn('servers', message, advice) : ok('servers', message);
  });
}
