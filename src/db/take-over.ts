/** Changes the owner of a cluster of an earlier version from uid 65534 to the dedicated user (account.ts). */
import { chown, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '#core/log.ts';
import { chownRecursive, NOBODY_UID, ownAccount } from './account.ts';
import type { Home } from './data-folder.ts';
import { serverOn } from './predecessor.ts';

/** Root owns a copy that was unpacked without its owners, or a folder whose change of owner was interrupted. */
const FORMER_OWNERS: ReadonlySet<number> = new Set([0, NOBODY_UID]);

/** Returns whether a folder of the cluster is a link, such as a WAL on a separate disk. */
async function hasLinks(data: string): Promise<boolean> {
  const lists = await Promise.all(
    [data, join(data, 'pg_tblspc')].map((folder) => readdir(folder, { withFileTypes: true }).catch(() => [])),
  );
  return lists.flat().some((entry) => entry.isSymbolicLink());
}

/**
 * Changes the owner of a home from uid 65534 or root to the dedicated account. The home belongs to root meanwhile, so that no
 * other process can add links and a start after a crash continues. Links are not followed, so a cluster with links is unchanged.
 */
export async function takeOverHome(given: Home, log?: Log): Promise<Home> {
  const { home, account: owner } = given;
  if (owner === undefined || !FORMER_OWNERS.has(owner.uid)) return given;
  const data = join(home, 'data');
  if ((await serverOn(data)) !== undefined || (owner.uid !== 0 && (await hasLinks(data)))) return given;
  const account = await ownAccount();
  await chown(home, 0, 0);
  await chownRecursive(
    account,
    (await readdir(home)).map((name) => join(home, name)),
  );
  await chown(home, account.uid, account.gid);
  log?.info({ home, from: owner.uid, to: account.uid }, 'owner of the database folder changed');
  return { home, account };
}
