/**
 * The password of the embedded cluster's superuser, which nobody has to know.
 */
import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { has, unreadable, unwritable } from './data-folder.ts';
import { DatabaseError } from './pool.ts';

const passwordPath = (dataDir: string): string => join(dataDir, 'postgres-password');

/** The password of the cluster; undefined before its first start. */
export const readPassword = async (dataDir: string): Promise<string | undefined> =>
  readFile(passwordPath(dataDir), 'utf8').then(
    (text) => text.trim(),
    (error: NodeJS.ErrnoException) => {
      // ENOTDIR: a file stands where the folder should; a start says so.
      if (has(error, 'ENOENT', 'ENOTDIR')) return undefined;
      throw unreadable(passwordPath(dataDir), error, 'Bring back the file that was there');
    },
  );

/** The password, made at the first call; kept in `<dataDir>/postgres-password`, readable by us alone. */
export const keptPassword = async (dataDir: string): Promise<string> => {
  const path = passwordPath(dataDir);
  try {
    const kept = await readPassword(dataDir);
    if (kept !== undefined) return kept;
    const password = randomBytes(24).toString('base64url');
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    await writeFile(temporary, `${password}\n`, { mode: 0o600, flush: true });
    // Not renamed: the password of another Halcyon that starts at this moment must not be overwritten.
    await link(temporary, path).catch((error: unknown) => {
      if (!has(error, 'EEXIST')) throw error;
    });
    await rm(temporary);
    return (await readPassword(dataDir)) ?? password;
  } catch (error) {
    throw error instanceof DatabaseError ? error : unwritable(dataDir, error);
  }
};
