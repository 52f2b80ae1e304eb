/** All checks, in the order in which one is the ground of the next. What one cannot ask keeps no other from asking. */
import { findRunning } from '#db/embedded.ts';
import { UnusableError, openPool, type DatabaseAddress } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';
import type { Env } from '#config/env.ts';
import { checkClocks } from './checks/clocks.ts';
import { checkKey } from './checks/key.ts';
import { checkLocks, checkTransactions } from './checks/locks.ts';
import { checkDisk, checkFolder, checkNames, checkNode } from './checks/machine.ts';
import { checkAddresses, checkMail, checkPorts } from './checks/network.ts';
import { checkMigrations, checkNumbers, checkPartitions } from './checks/schema.ts';
import { checkDatabase, checkSessions } from './checks/server.ts';
import { checkSettings } from './checks/settings.ts';
import { checkBacklog, checkRetention, checkWebhooks, checkWorkers, watchMs } from './checks/work.ts';
import { fail, warn, type Finding } from './finding.ts';
import type { DoctorContext } from './context.ts';

const CHECK_MS = 20_000;

/** What a check found, within `limitMs`; that it could not be made at all is a finding of its own. */
const made = async (name: string, check: () => Promise<Finding[]>, limitMs = CHECK_MS): Promise<Finding[]> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${limitMs / 1_000} s`)), limitMs);
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    if (error instanceof UnusableError) return [fail(name, error.what, error.remedy)];
    const message = error instanceof Error ? error.message : String(error);
    return [fail(name, `could not be looked at: ${message}`, 'Run this again; what comes before it may be the reason')];
  } finally {
    clearTimeout(timer);
  }
};

/** Two are enough, and the least with which it is seen whether each has a session of its own. */
const CONNECTIONS = 2;

const openPlace = (config: Config, clock: Clock, address: DatabaseAddress): DoctorContext => {
  const { directUrl, silenceMs } = config.database;
  const isShared = directUrl !== undefined;
  const options = { connections: CONNECTIONS, applicationName: 'halcyon', silenceMs };
  const sql = openPool(address, { ...options, isShared: true });
  return { config, clock, sql, direct: isShared ? openPool({ kind: 'url', url: directUrl }, options) : sql };
};

type TableCheck = {
  name: string;
  check: (place: DoctorContext) => Promise<Finding[]>;
  /** How long it waits by itself. */
  waitsMs?: (config: Config) => number;
};

/** What is asked of tables that are as this code knows them. */
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
  { name: 'housekeeping', check: checkRetention },
];

/** Its answers have the same time whatever the settings let it wait. */
export const limitMsOf = ({ waitsMs }: TableCheck, config: Config): number => CHECK_MS + (waitsMs?.(config) ?? 0);

/** `tell` hears of each check as it is made. */
const examineDatabase = async (place: DoctorContext, tell: (found: readonly Finding[]) => void): Promise<void> => {
  try {
    const server = await made('database', () => checkDatabase(place));
    tell(server);
    const isAway = !server.some(({ check }) => check === 'connections');
    if (isAway) return;
    // Before anything else runs there: who asks beside it would get the session that tells.
    tell(await made('sessions', () => checkSessions(place)));
    const schema = await made('migrations', () => checkMigrations(place));
    tell(schema);
    if (schema.some(({ state }) => state === 'fail')) return;
    for (const one of TABLE_CHECKS) tell(await made(one.name, () => one.check(place), limitMsOf(one, place.config)));
  } finally {
    await Promise.all([place.sql.end({ timeout: 1 }), place.direct.end({ timeout: 1 })]);
  }
};

/** Where the embedded database answers, if it does; otherwise what is known of its folder. */
const lookAtFolder = async (dataDir: string): Promise<DatabaseAddress | Finding[]> => {
  try {
    const address = await findRunning(dataDir);
    if (address !== undefined) return address;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = 'Run this as the user that Halcyon runs as, or set HALCYON_DATA to a folder of your own';
    return [fail('database', `${dataDir} cannot be looked at (${code ?? message})`, advice)];
  }
  const message = `no Halcyon runs on ${dataDir}, so its embedded database was not looked at`;
  return [...(await checkFolder(dataDir)), warn('database', message, 'Start it (npm start), then run this again')];
};

/** Changes nothing: it starts no database, makes no table and no key. */
export const examine = async (given: {
  env: Env;
  cwd: string;
  nodeVersion: string;
  clock: Clock;
  /** Told of each finding as it is there. */
  onFinding: (finding: Finding) => void;
}): Promise<Finding[]> => {
  const { env, cwd, clock, onFinding } = given;
  const all: Finding[] = [];
  const tell = (found: readonly Finding[]): void => {
    all.push(...found);
    found.forEach(onFinding);
  };
  tell(checkNode(given.nodeVersion));
  const { config, findings } = checkSettings(env, cwd);
  tell(findings);
  if (config === undefined) return all;
  const { database, dataDir } = config;
  if (database.url === undefined) tell(await made('disk', () => checkDisk(dataDir)));
  const address =
    database.url === undefined ? await lookAtFolder(dataDir) : ({ kind: 'url', url: database.url } as const);
  if (Array.isArray(address)) tell(address);
  else {
    await examineDatabase(openPlace(config, clock, address), tell);
  }
  tell(await made('names', () => checkNames()));
  tell(await made('ports', () => checkPorts(config)));
  tell(await made('addresses', () => checkAddresses(config)));
  tell(await made('mail', () => checkMail(config)));
  return all;
};
