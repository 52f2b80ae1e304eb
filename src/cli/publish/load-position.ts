/**
 * How far a file is loaded, in a file beside it, so that an interrupted load continues there, also after a `kill -9`. It is for one version
 * of the file, one server and one store, and is removed when the file is loaded.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Clock } from '#core/clock.ts';
import type { PublishTarget } from './publish-target.ts';

/** The end of a line: its number, and how many bytes of the file it ends after. */
export type Position = { number: number; endByte: number };

export type LoadPosition = {
  /** The end of the last line that an earlier load has finished; undefined if it begins with the first line. */
  start: Position | undefined;
  /** Says that all lines up to this one are loaded. Written at most once a second. */
  reached: (position: Position) => void;
  /** Writes the last position, or removes the file if all lines are loaded. */
  end: (isComplete: boolean) => void;
};

const WRITE_EVERY_MS = 1_000;

const isPosition = (value: unknown): value is Position =>
  typeof value === 'object' &&
  value !== null &&
  Object.values({ number: -1, endByte: -1, ...value }).every((part) => Number.isSafeInteger(part) && part >= 0);

/** Returns the position that is stored for this load; undefined if there is none, or the file has changed since. */
function readPosition(path: string, loaded: string): Position | undefined {
  try {
    const { of, position } = JSON.parse(readFileSync(path, 'utf8')) as { of: unknown; position: unknown };
    return of === loaded && isPosition(position) ? position : undefined;
  } catch {
    return undefined;
  }
}

/** Changes the file of the position. Without it the next load begins with the first line, and keeps what is loaded. */
function attempt(change: () => void): void {
  try {
    change();
  } catch {
    // The folder cannot be written.
  }
}

/** Opens the position of a load of the file at `path`. In a folder that cannot be written, a load begins with the first line. */
export async function openLoadPosition(
  path: string,
  { url, storeId }: Pick<PublishTarget, 'url' | 'storeId'>,
  clock: Clock,
): Promise<LoadPosition> {
  const stored = `${path}.position`;
  const { size, mtimeMs } = await stat(path);
  const of = JSON.stringify([size, mtimeMs, url, storeId]);
  let last: Position | undefined;
  let writtenMs = -Infinity;
  const write = (position: Position): void => {
    writeFileSync(`${stored}.new`, JSON.stringify({ of, position }));
    renameSync(`${stored}.new`, stored);
  };
  return {
    start: readPosition(stored, of),
    reached: (position) => {
      last = position;
      if (clock.monotonicMs() - writtenMs < WRITE_EVERY_MS) return;
      writtenMs = clock.monotonicMs();
      attempt(() => write(position));
    },
    end: (isComplete) => {
      const reached = last;
      if (isComplete) attempt(() => rmSync(stored, { force: true }));
      else if (reached !== undefined) attempt(() => write(reached));
    },
  };
}
