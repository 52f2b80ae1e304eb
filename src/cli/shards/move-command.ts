/** `halcyon shards status`, `plan`, `move` and `drop-moved`. */
import { SHARDS } from '#core/ids.ts';
import { formatShards, HOME, nameIn, shardsOf, shardsIn, type ShardMap } from '#shards/map.ts';
import {
  listMoves,
  type Move,
  estimateLoads,
  readDatabaseState,
  type DatabaseState,
  type Measure,
} from '#shards/move/move-sql.ts';
import {
  readMoveState,
  replicationOf,
  runMove,
  StoppedError,
  type Late,
  type Moved,
  type Place,
  type Progress,
} from '#shards/move/move.ts';
import {
  evenOwners,
  sumsOf,
  usefulMoves,
  abortMove,
  dropMoved,
  ownerOf,
  removeDatabase,
  startMove,
  unusedIn,
  newIdIn,
} from '#shards/move/moves.ts';
import { listLeasedShards, readMap, readIdentity, readVersion } from '#shards/map-sql.ts';
import { printResult } from '../command.ts';
import { createCommandLog } from '../command-context.ts';
import type { Terminal } from '../terminal.ts';
import { EXIT, UserError, UsageError } from '../explain.ts';
import type { Log } from '#core/log.ts';
import { openPool, type Sql } from '#db/pool.ts';
import { createSealer, type Sealer } from '#db/seal.ts';
import { nameOf } from '#db/servers.ts';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import { LOCKS, tryUnderLock } from '#db/advisory-lock.ts';
import { identify, prepareDatabase } from '#shards/adopt.ts';
import { readConfig } from '#config/config.ts';
import { openInstallation, type Installation } from '../installation.ts';
import { warnIfLate } from '../other-databases.ts';

// Opens the databases of the map for a command.

const CONNECTIONS = 2;

/** A database that may be new: `prepare` applies the migrations, and checks its key. */
type Found = Place & { prepare: () => Promise<void> };

type Databases = {
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

/** `pools`: those of databases that are not of the map. */
type Opened = { installation: Installation; homeUrl: string; pools: AsyncDisposableStack; log: Log };

function placesOf({ installation, homeUrl }: Opened): Pick<Databases, 'place' | 'isReachable'> {
  const { databases, direct, map } = installation;
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
async function openByUrl(url: string, { installation, pools, log }: Opened, terminal: Terminal): Promise<Found> {
  const name = nameOf({ kind: 'url', url });
  const { map } = installation;
  const sql = pools.use(openPool({ kind: 'url', url }, { connections: CONNECTIONS, applicationName: 'halcyon' }));
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
  const { databases } = opened.installation.map;
  const found = nameOrUrl === 'home' ? databases[0] : databases.find(({ name }) => name === nameOrUrl);
  // A database of the map was prepared when it was opened.
  if (found !== undefined) return { ...placesOf(opened).place(found.id), prepare: async () => {} };
  const names = [...new Set(['home', ...databases.map(({ name }) => name)])].join(', ');
  throw new UsageError(`--to ${nameOrUrl} is no database of the map: use ${names}, or a postgres:// address`);
}

async function withDatabases(terminal: Terminal, run: (databases: Databases) => Promise<void>): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const { url, directUrl, shards, homeOutageMs } = config.database;
  if (url === undefined) throw new UserError('Shards are moved between databases of servers: set DATABASE_URL');
  const log = createCommandLog(terminal, config.logLevel);
  // A move changes the map, so the setting differs from it until it is corrected.
  await using installation = await openInstallation(config, log, { usesRunningServer: true, followsMap: true });
  const { map, direct: home, secretKeys, isKeyAdopted } = installation;
  if (shards !== undefined && map.version === 0)
    throw new UserError(
      'SHARD_DATABASES is set, and there is no map yet: start Halcyon once, which makes it, or remove the setting',
    );
  await using pools = new AsyncDisposableStack();
  const homeUrl = directUrl ?? url;
  const opened = { installation, homeUrl, pools, log };
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
}

/** Returns the command that moves the shards. */
function moveCommand(shards: readonly number[], to: string): string {
  return `halcyon shards move ${formatShards(shards).replaceAll(' ', '')} --to ${to}`;
}

/** Parses shards such as `64-127,200`. */
function parseShards(text: string): number[] {
  const shards = text.split(/[,\s]+/).flatMap((part) => {
    const [, first = '', last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(part) ?? [];
    const range = { first: Number(first), last: Number(last) };
    if (first === '' || range.first > range.last || range.last >= SHARDS)
      throw new UsageError(`"${part}" is no range of shards: write numbers from 0 to ${SHARDS - 1}, as in 64-127,200`);
    return shardsIn(range);
  });
  return [...new Set(shards)].toSorted((a, b) => a - b);
}

// The commands.

const MIB = 1024 ** 2;
const NUMBER_WIDTH = 6;
const NAME_WIDTH = 36;

/** Returns the address without its password. */
const withoutPassword = (url: string): string =>
  url.replace(/^(\w+:\/\/[^:/@]*):[^@]*@/, '$1:…@').replace(/([?&]password=)[^&]*/, '$1…');

type DatabaseLine = { id: number; name: string; shards: string; is_reachable: boolean } & Partial<DatabaseState>;

function linesOf({ map, place, isReachable }: Databases): Promise<DatabaseLine[]> {
  return Array.fromAsync(map.databases, async ({ id, name }) => {
    const shards = shardsOf(map, id);
    const state = isReachable(id) ? await readDatabaseState(place(id).sql, shards) : {};
    return { id, name, shards: formatShards(shards), is_reachable: isReachable(id), ...state };
  });
}

/** Returns the state of a move, its databases and its shards. */
async function describeMove({ map, place, isReachable }: Databases, move: Move) {
  const about = { shards: formatShards(move.shards), from: nameIn(map, move.source), to: nameIn(map, move.target) };
  if (move.dateEnded !== null)
    return { ...about, state: 'ended; its rows in the source wait for halcyon shards drop-moved' };
  if (!isReachable(move.source) || !isReachable(move.target))
    return { ...about, state: 'unknown: a database is not reachable' };
  const [source, target] = [place(move.source), place(move.target)];
  return { ...about, state: await readMoveState(move, replicationOf(move, source, target)) };
}

export async function status(terminal: Terminal): Promise<void> {
  await withDatabases(terminal, async (databases) => {
    const lines = await linesOf(databases);
    const moves = await Array.fromAsync(await listMoves(databases.home), (move) => describeMove(databases, move));
    if (terminal.isJson === true)
      return printResult(terminal, { version: databases.map.version, databases: lines, moves });
    terminal.print(`Version ${databases.map.version} of the map of shards`);
    for (const { id, name, shards, is_reachable: isReachable, stores, bytes, schema } of lines) {
      const details = isReachable
        ? `${stores} stores, ${((bytes ?? 0) / MIB).toFixed(0)} MiB, schema ${schema ?? 'none'}`
        : 'not reachable';
      const number = id === HOME ? 'home' : String(id);
      terminal.print(`${number.padEnd(NUMBER_WIDTH)}${name.padEnd(NAME_WIDTH)} ${details}; shards ${shards || 'none'}`);
    }
    for (const { shards, from, to, state } of moves)
      terminal.print(`Move of ${shards} from ${from} to ${to}: ${state}`);
  });
}

export async function plan(
  terminal: Terminal,
  { by, with: added = [] }: { by: Measure; with?: string[] },
): Promise<void> {
  await withDatabases(terminal, async ({ map, place }) => {
    const loads = Array.from({ length: SHARDS }, () => 0);
    for (const { id } of map.databases) {
      const estimated = await estimateLoads(place(id).sql, by);
      for (const shard of shardsOf(map, id)) loads[shard] = estimated.get(shard) ?? 0;
    }
    const names = [...map.databases.map(({ name }) => name), ...added.map(withoutPassword)];
    const ids = map.databases.map(({ id }) => id);
    const databases = [...ids, ...added.map((_, index) => Math.max(...ids) + 1 + index)];
    const shownName = (id: number): string => names[databases.indexOf(id)] ?? '';
    const owners = evenOwners({ owners: map.owners, loads, databases });
    const after = sumsOf({ owners, loads, databases });
    const sums = [...sumsOf({ owners: map.owners, loads, databases })].map(([id, now]) => ({
      name: shownName(id),
      now,
      planned: after.get(id) ?? 0,
    }));
    const moves = usefulMoves({ owners: map.owners, loads, databases }, owners).map(({ from, to, shards }) => ({
      from: shownName(from),
      command: moveCommand(shards, shownName(to)),
    }));
    printResult(terminal, { by, databases: sums, moves }, [
      ...sums.map(({ name, now, planned }) => `${name.padEnd(NAME_WIDTH)} ${now} ${by} now, ${planned} planned`),
      ...(moves.length === 0 ? ['No move makes the databases more even.'] : moves.map(({ command }) => command)),
    ]);
  });
}

/** An operator notices what is missing within an hour. */
const KEPT_MS = 3_600_000;
/** Beside the time for which a process may serve without the home database, which has the map. */
const FOLLOWED_MS = 10_000;

const mib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`;

const LATE: Readonly<Record<Late, string>> = {
  behind: 'the target did not catch up',
  locked:
    'another transaction kept the map of shards locked (find it in pg_stat_activity of the home database, the smallest xact_start)',
  unapplied: 'changes of accounts were not applied (a process of halcyon serve applies them)',
};

/** Prints each step, and the state of copying whenever a table is ready. */
function progressOf(terminal: Terminal): Progress {
  let [shown, isStopped] = ['', false];
  void terminal.untilStopSignal().then(() => (isStopped = true));
  return {
    onStep: (step) => terminal.warn(step),
    onCopy: ({ tables, ready, rows, bytes, lagBytes, failures }) => {
      const state = `  ${ready} of ${tables} tables copied`;
      const failed = failures === 0 ? '' : `; failed ${failures} times, see the log of the target's PostgreSQL`;
      const details = `${state}; copying ${rows} rows, ${mib(bytes)}; ${mib(lagBytes)} behind${failed}`;
      if (terminal.showProgress !== undefined) terminal.showProgress(details);
      else if (state + failed !== shown) terminal.warn(details);
      shown = state + failed;
    },
    onLate: (refusedMs, reason) =>
      terminal.warn(
        `  ${LATE[reason]}: the source accepts changes again after ${Math.round(refusedMs)} ms; trying again`,
      ),
    isStopped: () => isStopped,
  };
}

/** Returns the move that is under way between these databases; throws a `UserError` if another one is. */
async function findOpen({ home, map }: Databases, shards: readonly number[], target: Place): Promise<Move | undefined> {
  const open = (await listMoves(home)).find(({ dateEnded }) => dateEnded === null);
  if (open === undefined) return undefined;
  if (open.target === target.id && formatShards(open.shards) === formatShards(shards)) return open;
  const command = moveCommand(open.shards, nameIn(map, open.target));
  throw new UserError(`Another move is under way: finish it by ${command}, or undo it with --abort`);
}

function report(
  terminal: Terminal,
  { steps, refusedMs }: Moved,
  about: { shards: string; from: string; to: string },
): void {
  terminal.showProgress?.('');
  const refused = refusedMs === undefined ? undefined : Math.round(refusedMs);
  const rounded = steps.map(({ step, ms }) => ({ step, ms: Math.round(ms) }));
  printResult(terminal, { ...about, refused_ms: refused ?? null, steps: rounded }, [
    `Shards ${about.shards} are in ${about.to}.`,
    ...rounded.map(({ step, ms }) => `  ${step.padEnd(10)}${String(ms).padStart(9)} ms`),
    ...(refused === undefined ? [] : [`Publishing to these shards was refused for ${refused} ms.`]),
    `Remove or correct SHARD_DATABASES. The rows in ${about.from} are kept until halcyon shards drop-moved.`,
  ]);
}

export async function moveShards(
  terminal: Terminal,
  ranges: string,
  { to, abort }: { to: string; abort?: true },
): Promise<void> {
  const shards = parseShards(ranges);
  await withDatabases(terminal, async (databases) => {
    await databases.alone(async () => {
      const { home, map, homeName, sealer } = databases;
      if (abort === true && (await listMoves(home)).every(({ dateEnded }) => dateEnded !== null))
        throw new UserError('No move is under way');
      const target = await databases.find(to);
      const open = await findOpen(databases, shards, target);
      if (abort === true) return undo(terminal, databases, { open, target });
      const source = databases.place(open?.source ?? ownerOf(map, shards, target));
      const { prepare } = target;
      const started = open ?? (await startMove(home, { shards, source, target, homeName, sealer, prepare }));
      const progress = progressOf(terminal);
      const moved = await runMove({ home, move: started, source, target, progress }).catch((error: unknown) => {
        if (!(error instanceof StoppedError)) throw error;
        throw new UserError(`Interrupted; run the same command again to continue, or with --abort`, EXIT.interrupted);
      });
      report(terminal, moved, { shards: formatShards(shards), from: source.name, to: target.name });
    });
  });
}

async function undo(
  terminal: Terminal,
  { home, place }: Databases,
  { open, target }: { open: Move | undefined; target: Place },
): Promise<void> {
  if (open === undefined) throw new UserError(`No move of these shards to ${target.name} is under way`);
  if (open.switchedForMs !== null)
    throw new UserError(
      `${target.name} owns these shards already: run the command without --abort, then move the shards back`,
    );
  const onDeleted = (table: string, rows: number): void => terminal.warn(`  ${rows} rows of ${table} deleted`);
  await abortMove(home, { move: open, source: place(open.source), target, onDeleted });
  printResult(terminal, { aborted: true }, ['The move is undone.']);
}

/** Removes the databases without shards from the map, and returns their names. */
async function removeEmpty(home: Databases['home'], place: Databases['place']): Promise<string[]> {
  const removed: string[] = [];
  for (const { id } of unusedIn(await readMap(home), await listMoves(home))) {
    const database = place(id);
    // One with leases has shards in a newer map than this one, which was restored.
    if ((await listLeasedShards(database.sql)).length > 0) continue;
    await removeDatabase(home, database);
    removed.push(database.name);
  }
  return removed;
}

export async function drop(terminal: Terminal, { now }: { now?: true }): Promise<void> {
  await withDatabases(terminal, async ({ home, homeOutageMs, place, alone }) => {
    await alone(async () => {
      const ended = (await listMoves(home)).filter(({ dateEnded }) => dateEnded !== null);
      const due = ended.filter(
        ({ switchedForMs }) => switchedForMs !== null && (now === true || switchedForMs >= KEPT_MS),
      );
      if (due.length === 0 && ended.length > 0)
        throw new UserError('The shards were moved less than an hour ago: run this later, or with --now');
      let deleted = 0;
      for (const one of due) {
        const source = place(one.source);
        terminal.warn(`Deleting ${formatShards(one.shards)} in ${source.name}`);
        await dropMoved(home, {
          move: one,
          source,
          followedMs: homeOutageMs + FOLLOWED_MS,
          onDeleted: (table, rows) => {
            deleted += rows;
            terminal.warn(`  ${rows} rows of ${table}`);
          },
        });
      }
      const removed = await removeEmpty(home, place);
      printResult(terminal, { moves: due.length, rows: deleted, removed }, [
        due.length === 0 ? 'No rows of moved shards are left.' : `${deleted} rows deleted.`,
        ...removed.map((name) => `${name} has no shards and has left the map: no process uses it any more.`),
      ]);
    });
  });
}
