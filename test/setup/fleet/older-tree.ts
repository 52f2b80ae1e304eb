/**
 * The code before a migration, in its own folder, with the packages of this tree. `postgres` is among them for it only:
 * it was the driver then.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Cleanups } from '../cleanups.ts';

const ROOT = join(import.meta.dirname, '../../..');
const run = promisify(execFile);

/** Returns the last commit without the file `path`; undefined without the history (a shallow clone, an archive). */
export async function commitBefore(path: string): Promise<string | undefined> {
  const git = async (...args: string[]) => (await run('git', args, { cwd: ROOT })).stdout.trim();
  try {
    const made = await git('log', '--diff-filter=A', '--format=%H', '-1', '--', path);
    return await git('rev-parse', '--verify', '--quiet', `${made}~1^{commit}`);
  } catch {
    return undefined;
  }
}

/** Returns the folder, removed at the end. */
export async function treeAt(commit: string, ends: Cleanups): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-older-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  const archive = join(folder, 'tree.tar');
  await run('git', ['archive', '--output', archive, commit, 'src', 'migrations', 'package.json'], { cwd: ROOT });
  await run('tar', ['-xf', archive, '-C', folder]);
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}
