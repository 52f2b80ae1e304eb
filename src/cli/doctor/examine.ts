/** Runs the tables of checks in order of their dependencies; a check that cannot run does not prevent the others. */
import { findRunning } from '#db/embedded.ts';
import type { DatabaseAddress } from '#db/pool.ts';
import { HOME } from '#shards/map.ts';
import { declareFile } from '#catalog/own/events-file.ts';
import { declareMappings } from '#catalog/own/mapping-file.ts';
import type { Clock } from '#core/clock.ts';
import type { Env } from '#config/env.ts';
import { fail, runChecks, warn, type Check, type Database, type Finding } from './check.ts';
import { DISK, FOLDER, NAMES, NETWORK_CHECKS, NODE } from './machine-checks.ts';
import {
  HOME_CHECK,
  identityCheck,
  LEASES_CHECK,
  MAP_CHECK,
  openDatabase,
  openMembers,
  SEVERAL_CHECKS,
  type Member,
  SERVER_CHECKS,
  SESSIONS,
} from './map-checks.ts';
import { checkSettings } from './settings-check.ts';
import { migrationsCheck, TABLE_CHECKS } from './table-checks.ts';

type Report = (found: readonly Finding[]) => void;

export const HOME_CHECKS: readonly Check<Database>[] = [
  ...SERVER_CHECKS,
  SESSIONS,
  migrationsCheck('halcyon migrate creates them'),
  ...TABLE_CHECKS,
  HOME_CHECK,
];

/** A database of the map has tables, so an empty one is another database. */
const IF_EMPTY = 'It is not the database of the map: restore that one, or correct its address by SHARD_DATABASES';

/** The clocks are compared together, the events are declared once, and the home database has all stores. */
const ONCE: ReadonlySet<string> = new Set(['clocks', 'events', 'platform_store']);

/** Returns the checks of another database than the home database. */
const memberChecks = (member: Member, home: string | undefined): readonly Check<Database>[] => [
  ...SERVER_CHECKS,
  migrationsCheck(IF_EMPTY),
  identityCheck(member, home),
  ...TABLE_CHECKS.filter(({ name }) => !ONCE.has(name)),
];

/** Names the database in each finding, and the setting of its address. */
const named = (name: string, findings: readonly Finding[]): Finding[] =>
  findings.map(({ message, advice, ...rest }) => {
    const ofSetting = advice?.replaceAll('DATABASE_URL', 'SHARD_DATABASES');
    return { ...rest, message: `${name}: ${message}`, ...(ofSetting !== undefined && { advice: ofSetting }) };
  });

/** Checks the map of shards and its other databases; without a map only whether the database delivers all shards. */
async function examineMap(home: Database, report: Report): Promise<void> {
  const several = await openMembers(home);
  const { map, members } = several;
  const others = members.filter(({ id }) => id !== HOME);
  try {
    await runChecks([MAP_CHECK], several, report);
    const examined = await Promise.all(
      others.map(async (member) => {
        const findings: Finding[] = [];
        const identity = members.find(({ id }) => id === HOME)?.identity;
        const isReadable = await runChecks(memberChecks(member, identity), member.context, (found) => {
          findings.push(...named(member.name, found));
        });
        return { member, findings, isReadable };
      }),
    );
    for (const { findings } of examined) report(findings);
    const unreadable = new Set(examined.filter(({ isReadable }) => !isReadable).map(({ member }) => member));
    const readable = members.filter((member) => !unreadable.has(member));
    await runChecks([LEASES_CHECK, ...(map.version === 0 ? [] : SEVERAL_CHECKS)], { ...several, readable }, report);
  } finally {
    await Promise.all(others.map(({ context }) => context.sql.end({ timeout: 1 })));
  }
}

async function examineDatabase(home: Database, report: Report): Promise<void> {
  try {
    if (await runChecks(HOME_CHECKS, home, report)) await examineMap(home, report);
  } finally {
    await Promise.all([home.sql.end({ timeout: 1 }), home.direct.end({ timeout: 1 })]);
  }
}

/** Returns the address of the running embedded database; reports if there is none. */
async function findEmbedded(dataDir: string, report: Report): Promise<DatabaseAddress | undefined> {
  try {
    const address = await findRunning(dataDir);
    if (address !== undefined) return address;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const advice = 'Run this as the user that Halcyon runs as, or set HALCYON_DATA to a folder of your own';
    report([{ check: 'database', ...fail(`${dataDir} cannot be read (${code ?? message})`, advice) }]);
    return undefined;
  }
  await runChecks([FOLDER], { dataDir }, report);
  const message = `no Halcyon runs on ${dataDir}, so its embedded database was not checked`;
  report([{ check: 'database', ...warn(message, 'Start it (npm start), then run this again') }]);
  return undefined;
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
  const all: Finding[] = [];
  const report: Report = (found) => {
    all.push(...found);
    found.forEach(deps.onFinding);
  };
  await runChecks([NODE], deps, report);
  const { config, findings } = await checkSettings(deps.env, deps.cwd);
  report(findings);
  if (config === undefined) return all;
  declareFile(config.events.file);
  declareMappings(config.events.mapping);
  const { url } = config.database;
  if (url === undefined) await runChecks([DISK], config, report);
  const address = url === undefined ? await findEmbedded(config.dataDir, report) : ({ kind: 'url', url } as const);
  if (address !== undefined) await examineDatabase(openDatabase(config, deps.clock, address), report);
  await runChecks([NAMES], {}, report);
  await runChecks(NETWORK_CHECKS, config, report);
  return all;
}
