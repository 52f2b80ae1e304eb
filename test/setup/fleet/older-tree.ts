/** The code of an earlier commit in its own folder, with its packages, and the commits of releases. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Cleanups } from '../cleanups.ts';

const ROOT = join(import.meta.dirname, '../../..');
const RELEASES = 'migrations/releases.json';
const LOCK = 'package-lock.json';
/** The last commit with the migrations that 0038-schema.sql replaces. */
export const REPLACED_AT = '5de66331';

const run = promisify(execFile);
const git = async (...args: string[]): Promise<string> => (await run('git', args, { cwd: ROOT })).stdout.trim();

/** The SHA-256 of each migration of each release. */
export type Releases = Readonly<Record<string, Readonly<Record<string, string>>>>;

export async function readReleases(): Promise<Releases> {
  return JSON.parse(await readFile(join(ROOT, RELEASES), 'utf8')) as Releases;
}

/** Returns whether the commit is in this repository; false in a shallow clone and in an archive. */
export async function hasCommit(commit: string): Promise<boolean> {
  return git('cat-file', '-e', `${commit}^{commit}`).then(
    () => true,
    () => false,
  );
}

/** Returns the commit that has added a release to the list; undefined without the history. */
export async function commitOfRelease(release: string): Promise<string | undefined> {
  const commits = await git('log', '--reverse', '--format=%H', `-S"${release}"`, '--', RELEASES).catch(() => '');
  return commits.split('\n')[0] || undefined;
}

/** Returns a folder with the paths as they were at the commit, removed at the end. */
export async function filesAt(
  commit: string,
  paths: readonly string[],
  ends: Pick<Cleanups, 'after'>,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-older-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  const archive = join(folder, 'tree.tar');
  await git('archive', '--output', archive, commit, ...paths);
  await run('tar', ['-xf', archive, '-C', folder]);
  return folder;
}

/** Returns the folder of a program that can be started, removed at the end. */
export async function treeAt(commit: string, ends: Pick<Cleanups, 'after'>): Promise<string> {
  const folder = await filesAt(commit, ['src', 'packages', 'docs', 'migrations', 'package.json', LOCK], ends);
  const hasSamePackages = (await readFile(join(folder, LOCK), 'utf8')) === (await readFile(join(ROOT, LOCK), 'utf8'));
  if (hasSamePackages) await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  else await run('npm', ['ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
  return folder;
}
