/** `halcyon shards move` and `drop-moved`. */
import { formatShards, nameIn } from '#shards/map.ts';
import { listMoves, type Move } from '#shards/move/move-sql.ts';
import { runMove, StoppedError, type Late, type Moved, type Place, type Progress } from '#shards/move/move.ts';
import { abortMove, dropMoved, ownerOf, removeDatabase, startMove, unusedIn } from '#shards/move/moves.ts';
import { listLeasedShards, readMap } from '#shards/map-sql.ts';
import { printResult } from '../command.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { moveCommand, parseShards, withDatabases, type Databases } from './database-commands.ts';

const MIB = 1024 ** 2;
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
  if (terminal.isJson === true) return printResult(terminal, { ...about, refused_ms: refused ?? null, steps: rounded });
  terminal.print(`Shards ${about.shards} are in ${about.to}.`);
  for (const { step, ms } of rounded) terminal.print(`  ${step.padEnd(10)}${String(ms).padStart(9)} ms`);
  if (refused !== undefined) terminal.print(`Publishing to these shards was refused for ${refused} ms.`);
  terminal.print(
    `Remove or correct SHARD_DATABASES. The rows in ${about.from} are kept until halcyon shards drop-moved.`,
  );
}

export async function move(
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
  if (terminal.isJson === true) printResult(terminal, { aborted: true });
  else terminal.print('The move is undone.');
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
      if (terminal.isJson === true) return printResult(terminal, { moves: due.length, rows: deleted, removed });
      terminal.print(due.length === 0 ? 'No rows of moved shards are left.' : `${deleted} rows deleted.`);
      for (const name of removed)
        terminal.print(`${name} has no shards and has left the map: no process uses it any more.`);
    });
  });
}
