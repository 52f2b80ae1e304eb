/**
 * Chooses the user that runs PostgreSQL when Halcyon runs as root: an id that no account has. Other processes of `nobody` (65534)
 * could read the files and connect to the server.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Account } from './binaries.ts';
import { DatabaseError } from './pool.ts';

/** systemd ("Users, Groups, UIDs and GIDs on systemd Systems") and Debian's policy assign these ids to no account. */
const FIRST_ID = 65_520;
const LAST_ID = 65_533;
const NOBODY_UID = 65_534;

/** Returns the first id that no line of `/etc/passwd` and `/etc/group` (the contents in `files`) uses. */
export function freeAccount(files: readonly string[]): { uid: number; gid: number } {
  const taken = new Set(files.flatMap((text) => text.split('\n').map((line) => Number(line.split(':')[2]))));
  for (let id = FIRST_ID; id <= LAST_ID; id += 1) if (!taken.has(id)) return { uid: id, gid: id };
  throw new DatabaseError(
    `Every user id from ${FIRST_ID} to ${LAST_ID} is taken, and PostgreSQL does not run as root: start Halcyon as another user`,
  );
}

export async function ownAccount(): Promise<{ uid: number; gid: number }> {
  return freeAccount(
    await Promise.all(['/etc/passwd', '/etc/group'].map((file) => readFile(file, 'utf8').catch(() => ''))),
  );
}

/** Returns the user that runs initdb for the account: initdb fails for a user without a name. The group gives it access to the home. */
export function initialiserOf(account: Account): Account {
  return account !== undefined && account.uid >= FIRST_ID && account.uid <= LAST_ID
    ? { ...account, uid: NOBODY_UID }
    : account;
}

/** Changes the owner of the paths recursively; the target of a symbolic link keeps its owner. */
export async function chownRecursive(
  { uid, gid }: { uid: number; gid: number },
  paths: readonly string[],
): Promise<void> {
  if (paths.length > 0) await promisify(execFile)('chown', ['-R', '-h', `${uid}:${gid}`, '--', ...paths]);
}
