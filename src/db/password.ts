/** Generates and keeps the password of the embedded cluster's superuser. */
import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode, unreadable, unwritable } from './data-folder.ts';
import { DatabaseError } from './pool.ts';

const passwordPath = (dataDir: string): string => join(dataDir, 'postgres-password');

/** Returns the password of the cluster; undefined before its first start. */
export async function readPassword(dataDir: string): Promise<string | undefined> {
  return readFile(passwordPath(dataDir), 'utf8').then(
    (text) => text.trim(),
    (error: NodeJS.ErrnoException) => {
      // ENOTDIR: there is a file in the place of the folder; a start reports it.
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
      throw unreadable(passwordPath(dataDir), error, 'Restore the original file');
    },
  );
}

/** Returns the password, generated at the first call and kept in `<dataDir>/postgres-password` (mode 0600). */
export async function readOrCreatePassword(dataDir: string): Promise<string> {
  const path = passwordPath(dataDir);
  try {
    const kept = await readPassword(dataDir);
    if (kept !== undefined) return kept;
    const password = randomBytes(24).toString('base64url');
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    await writeFile(temporary, `${password}\n`, { mode: 0o600, flush: true });
    // A link instead of a rename does not overwrite the password of a concurrent start.
    await link(temporary, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
    await rm(temporary);
    return (await readPassword(dataDir)) ?? password;
  } catch (error) {
    throw error instanceof DatabaseError ? error : unwritable(dataDir, error);
  }
}
