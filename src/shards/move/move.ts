/**
 * Moves shards to another database while all processes keep running, by a table of steps.
 *
 *     step       does                                                          undone by              done if there is
 *     publish    publication and slot in the source: it keeps its WAL          (copy)                 their name
 *     copy       subscription in the target: copies the rows, then changes     drops it all, deletes  its name
 *     guard      triggers in the source, which refuse nothing yet              drops them             their name
 *     numbers    raises the target's sequences; waits until no process has
 *                numbers from before                                                                  (repeated)
 *     block      source: leases deleted, changes refused ─┐                    allows changes         (undone first)
 *     catch up   the target has everything before that    │ publishing to
 *     hand over  nothing more is replicated               │ these shards
 *     switch     home: the target is the owner            ┘ is refused         (another move)         `date_switched`
 *     deliver    target: leases; its stores follow what their apps declare                            a lease
 *     finish     drops the replication; `dropMoved` deletes the rows of large
 *                tables in the source later                                                           `date_ended`
 *
 * `startMove` has written the move into the home database. The state of each step is in the databases, so after a crash the same call
 * continues.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { dayOf } from '#core/ids.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import { BLOCK_AGE_MS, createMissing, partitionsOf } from '#db/partitions.ts';
import { announceWorking, DatabaseError, transaction, type Sql } from '#db/pool.ts';
import {
  createGuards,
  dropGuards,
  dropReplication,
  LockedError,
  publishRows,
  readCopyState,
  readPosition,
  stopReplication,
  subscribe,
  untilApplied,
  withShortLocks,
  type CopyState,
  type Replication,
} from '#db/replication.ts';
import { lockMap } from '../map-sql.ts';
import { HOME, rangesOf } from '../map.ts';
import {
  allowChanges,
  endMove,
  followDeclarations,
  insertApplied,
  insertLeases,
  listApplied,
  listMoves,
  markSwitched,
  raiseNumbers,
  readFences,
  readNumbers,
  refuseChanges,
  switchOwner,
  type Move,
  deleteMoved,
  deleteSwept,
  listMovedTables,
  type OnDeleted,
} from './move-sql.ts';

/**
 * Why a switch was not possible in time: the target did not catch up, another transaction kept the map locked, or the source had not
 * applied all changes of the home database.
 */
export type Late = 'behind' | 'locked' | 'unapplied';

/** `url`: its address, also for the server of the other database. */
export type Place = { id: number; name: string; sql: Sql; url: string };

export type Progress = {
  onStep: (step: Step) => void;
  onCopy: (state: CopyState) => void;
  /** Called after each try that took too long, with the reason. */
  onLate: (refusedMs: number, reason: Late) => void;
  isStopped: () => boolean;
  /** Called after each step; tests end the process there. */
  afterStep?: (step: Step) => Promise<void>;
};

/** `numbersMs`: how long processes use a block of numbers; for tests without processes. */
type Between = { home: Sql; move: Move; source: Place; target: Place; progress: Progress; numbersMs?: number };
/** A run of a move, and what its steps leave for the later ones. */
type Run = Between & {
  replication: Replication;
  /** By the names of the target's sequences, the numbers that they were raised to. */
  raised: ReadonlyMap<string, number>;
  /** Since when changes are refused, on the monotonic clock. */
  refusedSince: number;
  /** How long the switch waits for a lock of the map. */
  patienceMs: number;
  /** The changes of the home database that the source has applied. */
  applied: readonly number[];
};

/** How long changes are refused before the source accepts them again; a stop of the replication and one more try may follow. */
const REFUSED_MAX_MS = 2_000;
/** The target applies less than this in a fraction of that time. */
const LAG_MAX_BYTES = 4 * 1024 * 1024;
const PROGRESS_MS = 500;
/** More than the source uses until the switch, 1/4,096 of those of a day. */
const NUMBERS_AHEAD = 2 ** 18;
const BLOCK_MARGIN_MS = 1_000;

/** The move was interrupted; the same command continues it. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

export function replicationOf({ id }: Pick<Move, 'id'>, source: Place, target: Place): Replication {
  return { name: `halcyon_move_${id}`, source: source.sql, target: target.sql };
}

/** Returns the error for a subscription that the server of the target refuses. */
export function notSubscribed(source: Place, target: Place, error: unknown): DatabaseError {
  const message = error instanceof Error ? error.message : String(error);
  return new DatabaseError(
    `The server of ${target.name} cannot subscribe to ${source.name} (${message}): the address of ${source.name} must lead there from that server too, with a user whose login pg_hba.conf allows`,
    { cause: error },
  );
}

const tablesOf = ({ source, target }: Run): Promise<string[]> =>
  // The home database has the rows of all stores.
  listMovedTables(source.sql, { withStores: target.id !== HOME });

async function publish(run: Run): Promise<void> {
  await publishRows(run.replication, await tablesOf(run), rangesOf(run.move.shards));
}

/** Days of partitioned tables: the target has those of the source, also of days that begin meanwhile. */
async function createDays({ source, target }: Run): Promise<void> {
  const [wanted, existing] = [await partitionsOf(source.sql), await partitionsOf(target.sql)];
  const known = new Set(existing.map(({ name }) => name));
  const days = wanted.flatMap(({ name, day, state }) => (state === 'attached' && !known.has(name) ? [day] : []));
  // The days from the one before the second argument.
  if (days.length > 0)
    await createMissing(target.sql, Math.min(...days) + 1, Math.max(...days) - Math.min(...days) - 1);
}

/** Replicates until the target has nearly everything. Continues where a try has stopped the replication. */
async function copy(run: Run): Promise<void> {
  const { source, target, replication, progress } = run;
  await createDays(run);
  await subscribe(replication, source.url).catch((error: unknown) => {
    throw notSubscribed(source, target, error);
  });
  for (;;) {
    if (progress.isStopped()) throw new StoppedError();
    await createDays(run);
    const state = await readCopyState(replication);
    progress.onCopy(state);
    if (state.tables > 0 && state.ready === state.tables && state.lagBytes <= LAG_MAX_BYTES) return;
    await delay(PROGRESS_MS);
  }
}

async function uncopy({ replication, target, move }: Undone, onDeleted: OnDeleted): Promise<void> {
  await dropReplication(replication);
  await deleteMoved(target, move.shards, onDeleted);
}

async function guard(run: Run): Promise<void> {
  const { source, move } = run;
  await createGuards(source.sql, { move: move.id, tables: await tablesOf(run), ranges: rangesOf(move.shards) });
}

const numbersOf = async ({ home, source }: Run) => readNumbers(source.sql, dayOf(await readDatabaseTime(home)));

/**
 * Raises the sequences of the target far above those of the source, and waits until no process has a block of numbers from before:
 * then no id of the target was used in the source. The sequence of a block alone does not say who still uses its numbers.
 */
async function raise(run: Run): Promise<void> {
  const { target, numbersMs = BLOCK_AGE_MS + BLOCK_MARGIN_MS } = run;
  await copy(run);
  const numbers = (await numbersOf(run)).map(({ name, last }) => ({ name, last: (last ?? 0) + NUMBERS_AHEAD }));
  await raiseNumbers(target.sql, numbers);
  await delay(numbersMs);
  run.raised = new Map(numbers.map(({ name, last }) => [name, last]));
}

async function block(run: Run): Promise<void> {
  const { source, move } = run;
  await withShortLocks(source.sql, `Refusing changes in ${source.name}`, (tx) => refuseChanges(tx, move));
  run.refusedSince = performance.now();
}

async function unblock({ source, move }: Undone): Promise<void> {
  await transaction(source.sql, (tx) => allowChanges(tx, move.shards));
}

async function catchUp(run: Run): Promise<Late | undefined> {
  const { source, replication, raised, progress } = run;
  // The source has used only numbers that the target will not use.
  const isBelow = (await numbersOf(run)).every(({ name, last }) => last === null || last < (raised.get(name) ?? 0));
  const isCaughtUp = isBelow && (await untilApplied(replication, await readPosition(source.sql), REFUSED_MAX_MS));
  if (progress.isStopped()) throw new StoppedError();
  return isCaughtUp ? undefined : 'behind';
}

async function handOver(run: Run): Promise<void> {
  run.patienceMs = REFUSED_MAX_MS - (performance.now() - run.refusedSince);
  await stopReplication(run.replication);
  run.applied = await listApplied(run.source.sql);
  await insertApplied(run.target.sql, run.applied);
}

async function switchMap({ home, move, applied, patienceMs }: Run): Promise<Late | undefined> {
  try {
    const isSwitched = await withShortLocks(
      home,
      'Changing the map of shards',
      async (tx) => {
        await lockMap(tx);
        return switchOwner(tx, move, applied);
      },
      patienceMs,
    );
    return isSwitched ? undefined : 'unapplied';
  } catch (error) {
    if (error instanceof LockedError) return 'locked';
    throw error;
  }
}

async function deliver({ source, target, move }: Run): Promise<void> {
  await insertLeases(target.sql, await readFences(source.sql, move.shards));
  await followDeclarations(target.sql);
  // The shards have no owner yet.
  await announceWorking(target.sql);
}

async function finish({ home, source, replication, move }: Run): Promise<void> {
  await dropReplication(replication);
  await markSwitched(source.sql, move.shards);
  await deleteSwept(source.sql, move.shards);
  await endMove(home, move.id);
}

type Undone = Pick<Run, 'move' | 'source' | 'target' | 'replication'>;
/**
 * `copying` steps run once. `switching` steps run until none of them is late; from `block` on they are undone if one is late or fails, and
 * the source is the owner then. `ending` steps run also if an earlier run has switched.
 */
type Row = {
  phase: 'copying' | 'switching' | 'ending';
  run: (run: Run) => Promise<Late | undefined | void>;
  undo?: (undone: Undone, onDeleted: OnDeleted) => Promise<void>;
};

const TABLE = {
  publish: { phase: 'copying', run: publish },
  copy: { phase: 'copying', run: copy, undo: uncopy },
  guard: { phase: 'copying', run: guard, undo: ({ source, move }) => dropGuards(source.sql, move.id) },
  numbers: { phase: 'switching', run: raise },
  block: { phase: 'switching', run: block, undo: unblock },
  'catch up': { phase: 'switching', run: catchUp },
  'hand over': { phase: 'switching', run: handOver },
  switch: { phase: 'switching', run: switchMap },
  deliver: { phase: 'ending', run: deliver },
  finish: { phase: 'ending', run: finish },
} satisfies Record<string, Row>;

export type Step = keyof typeof TABLE;
/** The steps in their order. */
export const STEPS = Object.keys(TABLE) as Step[];
const ROWS: Readonly<Record<Step, Row>> = TABLE;
const stepsOf = (phase: Row['phase']): Step[] => STEPS.filter((step) => ROWS[step].phase === phase);

/** Undoes steps, the last first. */
async function undo(steps: readonly Step[], undone: Undone, onDeleted: OnDeleted = () => {}): Promise<void> {
  for (const step of steps.toReversed()) await ROWS[step].undo?.(undone, onDeleted);
}

/** Returns whether the source is still the owner: waits for a switch whose result is unknown. */
function isUndecided({ home, move }: Between): Promise<boolean> {
  return transaction(home, async (tx) => {
    await lockMap(tx);
    return (await listMoves(tx)).some(({ id, switchedForMs }) => id === move.id && switchedForMs === null);
  });
}

/** `refusedMs`: how long publishing to the shards was refused; undefined if an earlier run had switched already. */
export type Moved = { steps: { step: Step; ms: number }[]; refusedMs: number | undefined };

/** Moves the shards, or continues to. Rejects with a `StoppedError` if it was stopped; the source is the owner then. */
export async function runMove(between: Between): Promise<Moved> {
  const { move, source, target, progress } = between;
  const replication = replicationOf(move, source, target);
  const run: Run = { ...between, replication, raised: new Map(), refusedSince: Number.NaN, patienceMs: 0, applied: [] };
  const steps: Moved['steps'] = [];
  const execute = async (step: Step): Promise<Late | undefined> => {
    progress.onStep(step);
    const since = performance.now();
    const late = (await ROWS[step].run(run)) ?? undefined;
    steps.push({ step, ms: performance.now() - since });
    await progress.afterStep?.(step);
    return late;
  };
  const switching = stepsOf('switching');
  /** Returns how long changes were refused; undefined if the switch was not possible in time. */
  const trySwitch = async (): Promise<number | undefined> => {
    for (const step of switching) {
      const late = await execute(step).catch(async (error: unknown) => {
        const mayRefuse = switching.indexOf(step) >= switching.indexOf('block');
        if (mayRefuse && (await isUndecided(run))) await undo(switching, run);
        throw error;
      });
      if (late === undefined) continue;
      await undo(switching, run);
      progress.onLate(performance.now() - run.refusedSince, late);
      return undefined;
    }
    return performance.now() - run.refusedSince;
  };

  let refusedMs: number | undefined;
  if (move.switchedForMs === null) {
    // An earlier run has ended between block and switch.
    await undo(switching, run);
    for (const step of stepsOf('copying')) await execute(step);
    while (refusedMs === undefined) refusedMs = await trySwitch();
  }
  for (const step of stepsOf('ending')) await execute(step);
  return { steps, refusedMs };
}

/** Undoes the steps of a move that is not switched. Can be repeated. */
export async function undoMove(
  move: Move,
  { source, target }: { source: Place; target: Place },
  onDeleted: OnDeleted,
): Promise<void> {
  const replication = replicationOf(move, source, target);
  // First what keeps WAL in the source: the locks that the guards need may be refused for minutes.
  await dropReplication(replication);
  await undo(STEPS, { move, source, target, replication }, onDeleted);
}

/** Describes how far a move is that has not ended. */
export async function readMoveState(move: Move, replication: Replication): Promise<string> {
  const again = 'run its command again';
  if (move.switchedForMs !== null) return `switched; ${again} to finish it`;
  if ((await readFences(replication.source, move.shards)).length > 0)
    return `changes are refused; if no command is running, ${again}, or with --abort`;
  const state = await readCopyState(replication).catch(() => undefined);
  if (state === undefined) return `started; ${again} to continue`;
  return `${state.ready} of ${state.tables} tables copied, ${state.lagBytes} bytes behind`;
}
