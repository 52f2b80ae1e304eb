/** What has changed since the commit at which the last complete run of the mutations caught all of them. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');
/** Written by a complete run of the mutations. */
export const COMPLETE_AT = join(ROOT, 'test/mutations/caught-at.txt');
const OUTPUT_MAX_BYTES = 1 << 28;

/** Returns the output of git in this tree. Throws if git fails, for example because the commit is unknown. */
export function git(...args: readonly string[]): string {
  return execFileSync('git', args, {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: OUTPUT_MAX_BYTES,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** `files`: the paths of the files that differ from the commit, those of the newest commits first. */
type Changes = { commit: string; files: ReadonlySet<string> };

/** Returns what differs from the commit; undefined if this clone does not have the commit. */
export function changesSinceComplete(): Changes | undefined {
  const commit = readFileSync(COMPLETE_AT, 'utf8').trim();
  try {
    const differing = new Set(git('diff', '--name-only', commit).split('\n').filter(Boolean));
    const uncommitted = git('diff', '--name-only', 'HEAD').split('\n');
    const byCommit = git('log', '--format=', '--name-only', `${commit}..HEAD`).split('\n');
    return {
      commit,
      files: new Set([...uncommitted, ...byCommit, ...differing].filter((path) => differing.has(path))),
    };
  } catch {
    return undefined;
  }
}

/** How far the start moves each day: a prime, so that the starts spread over lists of almost any length. */
const STEP = 97;

/** Returns the items from another place each day, so that a run that ends early gets to all of them in time. */
export function rotated<T>(items: readonly T[], day: number): T[] {
  const start = (day * STEP) % Math.max(items.length, 1);
  return [...items.slice(start), ...items.slice(0, start)];
}
