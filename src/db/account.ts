/**
 * The user that PostgreSQL runs as where Halcyon is root: one that no account has. Processes of `nobody` (65534), as which
 * earlier versions ran it, could read its files and connect to it.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Account } from './binaries.ts';
import { DatabaseError } from './pool.ts';

/** systemd ("Users, Groups, UIDs and GIDs on systemd Systems") and Debian's policy give these to no account. */
const FIRST_ID = 65_520;
const LAST_ID = 65_533;
export const NOBODY = 65_534;

/** Returns the first of the ids that no line of these files has: `/etc/passwd` and `/etc/group`. */
export const freeAccount = (files: readonly string[]): { uid: number; gid: number } => {
  const taken = new Set(files.flatMap((text) => text.split('\n').map((line) => Number(line.split(':')[2]))));
  for (let id = FIRST_ID; id <= LAST_ID; id += 1) if (!taken.has(id)) return { uid: id, gid: id };
  throw new DatabaseError(
    `Every user id from ${FIRST_ID} to ${LAST_ID} is taken, and PostgreSQL does not run as root: start Halcyon as another user`,
  );
};

export const ownAccount = async (): Promise<{ uid: number; gid: number }> =>
  freeAccount(await Promise.all(['/etc/passwd', '/etc/group'].map((file) => readFile(file, 'utf8').catch(() => ''))));

/** The user that runs initdb for the account: it stops where its user has no name. Its group lets it into the home of the account. */
export const initialiserOf = (account: Account): Account =>
  account !== undefined && account.uid >= FIRST_ID && account.uid <= LAST_ID ? { ...account, uid: NOBODY } : account;

/** Changes the owner of the paths and of all below them; the target of a link keeps its owner. */
export const giveTo = async ({ uid, gid }: { uid: number; gid: number }, paths: readonly string[]): Promise<void> => {
  if (paths.length > 0) await promisify(execFile)('chown', ['-R', '-h', `${uid}:${gid}`, '--', ...paths]);
};
