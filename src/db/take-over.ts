/** Gives the cluster of an earlier version, which ran as `nobody`, to the user of its own (account.ts). */
import { chown, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '#core/log.ts';
import { giveTo, NOBODY, ownAccount } from './account.ts';
import type { Home } from './data-folder.ts';
import { serverOn } from './predecessor.ts';

/** Root may own a copy that was unpacked without its owners, or a folder whose take-over was interrupted. */
const TAKEN_OVER: ReadonlySet<number> = new Set([0, NOBODY]);

/** Whether a folder of the cluster was moved elsewhere, as a log of transactions on a disk of its own. */
const hasLinks = async (data: string): Promise<boolean> => {
  const lists = await Promise.all(
    [data, join(data, 'pg_tblspc')].map((folder) => readdir(folder, { withFileTypes: true }).catch(() => [])),
  );
  return lists.flat().some((entry) => entry.isSymbolicLink());
};

/**
 * Gives a home that `nobody` or root owns to the account of its own. The home belongs to root meanwhile: no other process can
 * put links into it, and a start after a crash goes on. Links are not followed, so a cluster with links stays as it is.
 */
export const ownedHome = async (given: Home, log?: Log): Promise<Home> => {
  const { home, account: owner } = given;
  if (owner === undefined || !TAKEN_OVER.has(owner.uid)) return given;
  const data = join(home, 'data');
  if ((await serverOn(data)) !== undefined || (owner.uid !== 0 && (await hasLinks(data)))) return given;
  const account = await ownAccount();
  await chown(home, 0, 0);
  await giveTo(
    account,
    (await readdir(home)).map((name) => join(home, name)),
  );
  await chown(home, account.uid, account.gid);
  log?.info({ home, from: owner.uid, to: account.uid }, 'the database belongs to another user from now on');
  return { home, account };
};
