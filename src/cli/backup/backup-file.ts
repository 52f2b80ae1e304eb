/** Writes a file atomically, readable only by its owner. */
import { randomBytes } from 'node:crypto';
import { link, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UserError } from '../explain.ts';

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

async function flush(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const alreadyExists = (path: string): UserError =>
  new UserError(`${path} already exists: choose another file with --to`);

/**
 * Renames without replacing an existing file, which only a hard link guarantees. File systems without hard links (exFAT, some
 * shares) get a check and a rename, which is better than to lose a back-up that took an hour.
 */
async function renameNew(part: string, path: string): Promise<void> {
  try {
    await link(part, path);
  } catch {
    if (await exists(path)) throw alreadyExists(path);
    return rename(part, path);
  }
  return rm(part);
}

/**
 * Calls `write` with a temporary path next to `path` (mode 0600), renames the complete and flushed file, and returns its size in
 * bytes. Never replaces an existing file, which may be the last good back-up. A failure removes the temporary file, a kill leaves
 * a `.part`; its name is random, so that concurrent runs do not write to the same file.
 */
export async function writeAtomically(path: string, write: (part: string) => Promise<void>): Promise<number> {
  if (await exists(path)) throw alreadyExists(path);
  const part = `${path}.${randomBytes(4).toString('hex')}.part`;
  const handle = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${path} cannot be written (${error.code}): choose a file in a writable folder with --to`);
  });
  await handle.close();
  try {
    await write(part);
    await flush(part);
    await renameNew(part, path);
    await flush(dirname(path));
    return (await stat(path)).size;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
