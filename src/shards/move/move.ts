/**
 * Moves shards to another database while all processes keep running.
 *
 *     publish    publication and slot in the source: from now on the source keeps its WAL
 *     copy       subscription in the target: the rows are copied, then changes follow
 *     guard      triggers in the source, which refuse nothing yet
 *     numbers    the target's sequences are raised; waits until no process has numbers from before
 *     block      source: leases deleted, changes refused ─┐ undone if a step until `switch` fails or takes too long
 *     catch up   the target has everything before that    │
 *     hand over  nothing more is replicated; sequences    │ publishing to these shards is refused
 *     switch     home: the target is the owner            ┘
 *     deliver    target: leases
 *     finish     replication dropped; the rows in the source stay until `drop-moved`
 *
 * `startMove` has written the move into the home database. The state of each step is in the databases, so after a crash the same call continues: it repeats what may be incomplete.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { dayOf } from '#core/ids.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import { BLOCK_AGE_MS } from '#db/numbers.ts';
import { createMissing, partitionsOf } from '#db/partitions.ts';
import { DatabaseError, transaction, type Sql, type Tx } from '#db/pool.ts';
import {
  createGuards,
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
} from './move-sql.ts';
import { deleteSwept, listMovedTables } from './tables.ts';

export const STEPS = [
  'publish',
  'copy',
  'guard',
  'numbers',
  'block',
  'catch up',
  'hand over',
  'switch',
  'deliver',
  'finish',
] as const;
export type Step = (typeof STEPS)[number];

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

/** `refusedMs`: how long publishing to the shards was refused; undefined if an earlier run had switched already. */
export type Moved = { steps: { step: Step; ms: number }[]; refusedMs: number | undefined };

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

/** `numbersMs`: how long processes use a block of numbers; for tests without processes. */
type Between = { home: Sql; move: Move; source: Place; target: Place; progress: Progress; numbersMs?: number };

class Mover {
  readonly #between: Between;
  readonly #replication: Replication;
  readonly #steps: Moved['steps'] = [];
  #refusedMs: number | undefined;

  constructor(between: Between) {
    this.#between = between;
    this.#replication = replicationOf(between.move, between.source, between.target);
  }

  async #step<T>(step: Step, run: () => Promise<T>): Promise<T> {
    const { onStep, afterStep } = this.#between.progress;
    onStep(step);
    const since = performance.now();
    const result = await run();
    this.#steps.push({ step, ms: performance.now() - since });
    await afterStep?.(step);
    return result;
  }

  #tables(): Promise<string[]> {
    const { source, target } = this.#between;
    // The home database has the rows of all stores.
    return listMovedTables(source.sql, { withStores: target.id !== HOME });
  }

  /** Days of partitioned tables: the target has those of the source, also of days that begin meanwhile. */
  async #createDays(): Promise<void> {
    const { source, target } = this.#between;
    const [wanted, existing] = [await partitionsOf(source.sql), await partitionsOf(target.sql)];
    const known = new Set(existing.map(({ name }) => name));
    const days = wanted.flatMap(({ name, day, state }) => (state === 'attached' && !known.has(name) ? [day] : []));
    // The days from the one before the second argument.
    if (days.length > 0)
      await createMissing(target.sql, Math.min(...days) + 1, Math.max(...days) - Math.min(...days) - 1);
  }

  async #untilCopied(): Promise<void> {
    const { progress } = this.#between;
    for (;;) {
      if (progress.isStopped()) throw new StoppedError();
      await this.#createDays();
      const state = await readCopyState(this.#replication);
      progress.onCopy(state);
      if (state.tables > 0 && state.ready === state.tables && state.lagBytes <= LAG_MAX_BYTES) return;
      await delay(PROGRESS_MS);
    }
  }

  /**
   * Raises the sequences of the target far above those of the source, and waits until no process has a block of numbers from before:
   * then no id of the target was used in the source. The sequence of a block alone does not say who still uses its numbers.
   */
  async #raiseNumbers(): Promise<Map<string, number>> {
    const { home, source, target, numbersMs = BLOCK_AGE_MS + BLOCK_MARGIN_MS } = this.#between;
    const numbers = (await readNumbers(source.sql, dayOf(await readDatabaseTime(home)))).map(({ name, last }) => ({
      name,
      last: (last ?? 0) + NUMBERS_AHEAD,
    }));
    await raiseNumbers(target.sql, numbers);
    await delay(numbersMs);
    return new Map(numbers.map(({ name, last }) => [name, last]));
  }

  /** Returns whether the source has used only numbers that the target will not use. */
  async #isBelow(raised: ReadonlyMap<string, number>): Promise<boolean> {
    const { home, source } = this.#between;
    const numbers = await readNumbers(source.sql, dayOf(await readDatabaseTime(home)));
    return numbers.every(({ name, last }) => last === null || last < (raised.get(name) ?? 0));
  }

  async #unblock(): Promise<void> {
    const { source, move } = this.#between;
    await transaction(source.sql, (tx) => allowChanges(tx, move.shards));
  }

  /** Returns whether the source is still the owner: waits for a switch whose result is unknown. */
  #isUndecided(): Promise<boolean> {
    const { home, move } = this.#between;
    return transaction(home, async (tx) => {
      await lockMap(tx);
      return (await listMoves(tx)).some(({ id, switchedForMs }) => id === move.id && switchedForMs === null);
    });
  }

  /** Returns why the switch was not possible; undefined if it was. */
  async #switch(patienceMs: number): Promise<Late | undefined> {
    const { home, move, source, target } = this.#between;
    const applied = await this.#step('hand over', async () => {
      await stopReplication(this.#replication);
      const ids = await listApplied(source.sql);
      await insertApplied(target.sql, ids);
      return ids;
    });
    const change = async (tx: Tx): Promise<Late | undefined> => {
      await lockMap(tx);
      return (await switchOwner(tx, move, applied)) ? undefined : 'unapplied';
    };
    return this.#step('switch', () =>
      withShortLocks(home, 'Changing the map of shards', change, patienceMs).catch((error: unknown) => {
        if (error instanceof LockedError) return 'locked' as const;
        throw error;
      }),
    );
  }

  /** Returns false if the switch was not possible in time: the source accepts changes again, and the replication may be stopped. */
  async #trySwitch(raised: ReadonlyMap<string, number>): Promise<boolean> {
    const { move, source, progress } = this.#between;
    let since = Number.NaN;
    let late: Late | undefined = 'behind';
    try {
      await this.#step('block', async () => {
        await withShortLocks(source.sql, `Refusing changes in ${source.name}`, (tx) => refuseChanges(tx, move));
        since = performance.now();
      });
      const isCaughtUp = await this.#step(
        'catch up',
        async () =>
          (await this.#isBelow(raised)) &&
          untilApplied(this.#replication, await readPosition(source.sql), REFUSED_MAX_MS),
      );
      if (progress.isStopped()) throw new StoppedError();
      if (isCaughtUp) late = await this.#switch(REFUSED_MAX_MS - (performance.now() - since));
      if (late === undefined) {
        this.#refusedMs = performance.now() - since;
        return true;
      }
    } catch (error) {
      if (await this.#isUndecided()) await this.#unblock();
      throw error;
    }
    await this.#unblock();
    progress.onLate(performance.now() - since, late);
    return false;
  }

  async #subscribe(): Promise<void> {
    const { source, target } = this.#between;
    await subscribe(this.#replication, source.url).catch((error: unknown) => {
      throw notSubscribed(source, target, error);
    });
  }

  async #untilSwitched(): Promise<void> {
    const { source, move } = this.#between;
    const ranges = rangesOf(move.shards);
    // An earlier run has ended between block and switch.
    await this.#unblock();
    await this.#step('publish', async () => publishRows(this.#replication, await this.#tables(), ranges));
    await this.#step('copy', async () => {
      await this.#createDays();
      await this.#subscribe();
      await this.#untilCopied();
    });
    await this.#step('guard', async () =>
      createGuards(source.sql, { move: move.id, tables: await this.#tables(), ranges }),
    );
    do {
      // A try that has failed after the target caught up has stopped it.
      await this.#subscribe();
      await this.#untilCopied();
    } while (!(await this.#trySwitch(await this.#step('numbers', () => this.#raiseNumbers()))));
  }

  async run(): Promise<Moved> {
    const { home, move, source, target } = this.#between;
    if (move.switchedForMs === null) await this.#untilSwitched();
    await this.#step('deliver', async () => insertLeases(target.sql, await readFences(source.sql, move.shards)));
    await this.#step('finish', async () => {
      await dropReplication(this.#replication);
      await markSwitched(source.sql, move.shards);
      await deleteSwept(source.sql, move.shards);
      await endMove(home, move.id);
    });
    return { steps: this.#steps, refusedMs: this.#refusedMs };
  }
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

/** Moves the shards, or continues to. Rejects with a `StoppedError` if it was stopped; the source is the owner then. */
export function runMove(between: Between): Promise<Moved> {
  return new Mover(between).run();
}
