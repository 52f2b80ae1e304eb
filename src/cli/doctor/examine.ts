/** Runs all checks in order of their dependencies; a check that cannot run does not prevent the others. */
import { findRunning } from '#db/embedded.ts';
import { UnusableError, openPool, type DatabaseAddress } from '#db/pool.ts';
import { HOME } from '#shards/map.ts';
import { declareFile } from '#catalog/own/events-file.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';
import type { Env } from '#config/env.ts';
import {
  checkClocks,
  checkDatabase,
  checkSessions,
  checkLocks,
  checkTransactions,
  checkSlots,
} from './checks/server-check.ts';
import {
  checkAllClocks,
  checkIdentity,
  checkLeases,
  checkHome,
  checkMap,
  checkOutbox,
  checkServers,
  openMembers,
  type Member,
} from './checks/databases-check.ts';
import { checkKey, checkMigrations, checkNumbers, checkPartitions } from './checks/schema-check.ts';
import {
  checkDisk,
  checkFolder,
  checkNames,
  checkNode,
  checkAddresses,
  checkMail,
  checkPorts,
  checkProxy,
} from './checks/machine-check.ts';
import { checkSettings } from './checks/settings-check.ts';
import {
  checkBacklog,
  checkEvents,
  checkRetention,
  checkWebhooks,
  checkWorkers,
  watchMs,
} from './checks/work-check.ts';
import { fail, warn, type Finding, type DoctorContext } from './finding.ts';

const CHECK_MS = 20_000;

/** Runs a check within `limitMs`; an error or a time-out is a finding as well. */
async function runCheck(name: string, check: () => Promise<Finding[]>, limitMs = CHECK_MS): Promise<Finding[]> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no response within ${limitMs / 1_000} s`)), limitMs);
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    if (error instanceof UnusableError) return [fail(name, error.problem, error.remedy)];
    const message = error instanceof Error ? error.message : String(error);
    return [fail(name, `the check failed: ${message}`, 'Run this again; an earlier finding may be the reason')];
  } finally {
    clearTimeout(timer);
  }
}

/** The minimum to detect whether each connection has its own session. */
const CONNECTIONS = 2;

function openContext(config: Config, clock: Clock, address: DatabaseAddress): DoctorContext {
  const { directUrl, silenceMs } = config.database;
  const isShared = directUrl !== undefined;
  const options = { connections: CONNECTIONS, applicationName: 'halcyon', silenceMs };
  const sql = openPool(address, { ...options, isShared: true });
  return { config, clock, sql, direct: isShared ? openPool({ kind: 'url', url: directUrl }, options) : sql };
}

type Report = (found: readonly Finding[]) => void;

type TableCheck = {
  name: string;
  check: (context: DoctorContext) => Promise<Finding[]>;
  /** The duration of its own wait. */
  waitsMs?: (config: Config) => number;
};

/** Checks that require the schema of this version. */
export const TABLE_CHECKS: readonly TableCheck[] = [
  { name: 'partitions', check: checkPartitions },
  { name: 'numbers', check: checkNumbers },
  { name: 'key', check: checkKey },
  { name: 'clocks', check: checkClocks },
  { name: 'transactions', check: checkTransactions },
  { name: 'locks', check: checkLocks },
  { name: 'workers', check: checkWorkers, waitsMs: watchMs },
  { name: 'backlog', check: checkBacklog },
  { name: 'webhooks', check: checkWebhooks },
  { name: 'events', check: checkEvents },
  { name: 'housekeeping', check: checkRetention },
  { name: 'slots', check: checkSlots },
];

/** Checks of one database that are not made of each: the clocks are compared together, and the events are declared once. */
const ONCE: ReadonlySet<string> = new Set(['clocks', 'events']);

/** Returns the time limit of a check: that of all checks plus its own wait. */
export function limitMsOf({ waitsMs }: TableCheck, config: Config): number {
  return CHECK_MS + (waitsMs?.(config) ?? 0);
}

/** Names the database in each finding, and the setting of its address. */
function named(name: string, findings: readonly Finding[]): Finding[] {
  return findings.map(({ message, advice, ...rest }) => {
    const ofSetting = advice?.replaceAll('DATABASE_URL', 'SHARD_DATABASES');
    return { ...rest, message: `${name}: ${message}`, ...(ofSetting !== undefined && { advice: ofSetting }) };
  });
}

const hasFailed = (some: readonly Finding[]): boolean => some.some(({ state }) => state === 'fail');

/** A database of the map has tables, so an empty one is another database. */
const IF_EMPTY = 'It is not the database of the map: restore that one, or correct its address by SHARD_DATABASES';

/** Checks a database beside the home database. `isReadable`: it has the tables of this version, and is the one of the map. */
async function examineMember(
  member: Member,
  home: string,
): Promise<{ member: Member; findings: Finding[]; isReadable: boolean }> {
  const { context, name } = member;
  const findings: Finding[] = [];
  const run = async (check: string, found: () => Promise<Finding[]>, limitMs?: number): Promise<Finding[]> => {
    const some = await runCheck(check, found, limitMs);
    findings.push(...named(name, some));
    return some;
  };
  const server = await run('database', () => checkDatabase(context));
  const isReadable =
    server.some(({ check }) => check === 'connections') &&
    !hasFailed(await run('migrations', () => checkMigrations(context, IF_EMPTY))) &&
    !hasFailed(await run('map', () => checkIdentity(member, home)));
  if (isReadable)
    for (const one of TABLE_CHECKS)
      if (!ONCE.has(one.name)) await run(one.name, () => one.check(context), limitMsOf(one, context.config));
  return { member, findings, isReadable };
}

/** Checks the map of shards and its other databases; without a map only whether the database delivers all shards. */
async function examineMap(home: DoctorContext, report: Report): Promise<void> {
  const isHome = await runCheck('map', () => checkHome(home));
  report(isHome);
  if (hasFailed(isHome)) return;
  const opened = await openMembers(home);
  const { map, members } = opened;
  const others = members.filter(({ id }) => id !== HOME);
  try {
    report(await runCheck('map', () => checkMap(opened, home)));
    const identity = members[0]?.identity ?? '';
    const examined = await Promise.all(others.map((member) => examineMember(member, identity)));
    for (const { findings } of examined) report(findings);
    const readable = members.filter(
      ({ id }) => id === HOME || examined.some((one) => one.isReadable && one.member.id === id),
    );
    const leases = await runCheck('leases', () => checkLeases(opened, readable));
    if (map.version === 0) {
      report(leases.filter(({ state }) => state !== 'ok'));
      return;
    }
    report(leases);
    report(await runCheck('clocks', () => checkAllClocks(readable)));
    report(await runCheck('servers', () => checkServers(readable)));
    report(await runCheck('outbox', () => checkOutbox(opened, home)));
  } finally {
    await Promise.all(others.map(({ context }) => context.sql.end({ timeout: 1 })));
  }
}

/** Checks the home database; calls `report` after each check. */
async function examineDatabase(context: DoctorContext, report: Report): Promise<void> {
  try {
    const server = await runCheck('database', () => checkDatabase(context));
    report(server);
    const isUnavailable = !server.some(({ check }) => check === 'connections');
    if (isUnavailable) return;
    // Runs without concurrent statements, which could get the shared session that this check detects.
    report(await runCheck('sessions', () => checkSessions(context)));
    const schema = await runCheck('migrations', () => checkMigrations(context));
    report(schema);
    if (hasFailed(schema)) return;
    for (const one of TABLE_CHECKS)
      report(await runCheck(one.name, () => one.check(context), limitMsOf(one, context.config)));
    await examineMap(context, report);
  } finally {
    await Promise.all([context.sql.end({ timeout: 1 }), context.direct.end({ timeout: 1 })]);
  }
}

/** Returns the address of the running embedded database, or findings about its folder. */
async function findEmbedded(dataDir: string): Promise<DatabaseAddress | Finding[]> {
  try {
    const address = await findRunning(dataDir);
    if (address !== undefined) return address;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = 'Run this as the user that Halcyon runs as, or set HALCYON_DATA to a folder of your own';
    return [fail('database', `${dataDir} cannot be read (${code ?? message})`, advice)];
  }
  const message = `no Halcyon runs on ${dataDir}, so its embedded database was not checked`;
  return [...(await checkFolder(dataDir)), warn('database', message, 'Start it (npm start), then run this again')];
}

/** Runs all checks and returns their findings. Changes nothing: it starts no database and creates no table and no key. */
export async function examine(deps: {
  env: Env;
  cwd: string;
  nodeVersion: string;
  clock: Clock;
  /** Called with each finding as soon as it is known. */
  onFinding: (finding: Finding) => void;
}): Promise<Finding[]> {
  const { env, cwd, clock, onFinding } = deps;
  const all: Finding[] = [];
  const report = (found: readonly Finding[]): void => {
    all.push(...found);
    found.forEach(onFinding);
  };
  report(checkNode(deps.nodeVersion));
  const { config, findings } = checkSettings(env, cwd);
  report(findings);
  if (config === undefined) return all;
  declareFile(config.events.file);
  const { database, dataDir } = config;
  if (database.url === undefined) report(await runCheck('disk', () => checkDisk(dataDir)));
  const address =
    database.url === undefined ? await findEmbedded(dataDir) : ({ kind: 'url', url: database.url } as const);
  if (Array.isArray(address)) report(address);
  else {
    await examineDatabase(openContext(config, clock, address), report);
  }
  report(await runCheck('names', () => checkNames()));
  report(await runCheck('ports', () => checkPorts(config)));
  report(await runCheck('addresses', () => checkAddresses(config)));
  report(await runCheck('proxy', () => checkProxy(config)));
  report(await runCheck('mail', () => checkMail(config)));
  return all;
}
