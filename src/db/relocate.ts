/**
 * Moves a cluster that its account cannot reach, such as a copy that root unpacked below a folder of mode 0700, to the folder of
 * new clusters, and replaces it by a link. The link is created first, so that a crash loses nothing.
 */
import { lstat, readdir, realpath, rename, rm, stat, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Log } from '#core/log.ts';
import { isReachable } from './binaries.ts';
import { hasCode, newSystemHome, type Home } from './data-folder.ts';
import { UnusableError } from './pool.ts';
import { serverOn } from './predecessor.ts';

const LINK = /^postgres\.[0-9a-f]+\.moved$/;

/** Finishes an interrupted move: the cluster is in its new folder, but the link does not have its final name yet. */
export async function finishMove(dataDir: string): Promise<void> {
  const path = join(dataDir, 'postgres');
  const names = await readdir(dataDir).catch(() => []);
  for (const link of names.filter((name) => LINK.test(name)).map((name) => join(dataDir, name))) {
    const isMoved = !(await lstat(path).catch(() => undefined)) && (await stat(link).catch(() => undefined));
    await (isMoved ? rename(link, path) : rm(link, { force: true }));
  }
}

/** Returns the home, moved if its account cannot reach it and no server runs on it. */
export async function reachableHome(dataDir: string, given: Home, log?: Log): Promise<Home> {
  const { home, account } = given;
  if ((await isReachable(home, account)) || (await serverOn(join(home, 'data'))) !== undefined) return given;
  const target = await newSystemHome();
  const link = join(dataDir, `postgres.${basename(target)}.moved`);
  await symlink(target, link);
  try {
    await rename(home, target);
  } catch (cause) {
    await rm(link, { force: true });
    if (!hasCode(cause, 'EXDEV')) throw cause;
    throw new UnusableError(
      `User ${account?.uid}, which runs PostgreSQL, cannot enter a folder above ${home}`,
      'Make each of them accessible (chmod o+x), or set HALCYON_DATA to a folder that all users can enter',
      cause,
    );
  }
  await rename(link, join(dataDir, 'postgres'));
  log?.info({ dataDir, home: target }, `user ${account?.uid} cannot reach ${home}: the database moved to ${target}`);
  return { home: await realpath(target), account };
}
