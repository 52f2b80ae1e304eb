/** The files that worker processes share among them: each takes the next one that no other has claimed. */
import { openSync, closeSync } from 'node:fs';
import { join } from 'node:path';

/** A file that takes longer does not end: the longest takes four minutes here. */
export const FILE_TIMEOUT_MS = 20 * 60_000;

const NAME = 'HALCYON_TEST_QUEUE';

type Queue = {
  files: readonly string[];
  /** An empty folder. */
  claims: string;
  /** How many files one process takes at most. */
  limit: number;
  /** How long a file has to close what it opened. */
  patienceMs: number;
};

/** Returns the environment that a worker process needs. */
export function writeQueue(queue: Queue): NodeJS.ProcessEnv {
  return { [NAME]: JSON.stringify(queue) };
}

/** Creating a file with `wx` fails where it exists, so one process of all gets it. */
function claim(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

export function readQueue(): Queue {
  return JSON.parse(process.env[NAME] ?? '') as Queue;
}

/** Yields files, claimed one at a time, until none is left or this process has had its share. */
export function* takeFiles({ files, claims, limit }: Queue): Generator<string> {
  let taken = 0;
  for (const [index, file] of files.entries()) {
    if (taken === limit) return;
    if (!claim(join(claims, String(index)))) continue;
    taken += 1;
    yield file;
  }
}
