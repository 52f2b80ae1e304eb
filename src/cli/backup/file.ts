/** A file that nobody ever sees half of, and nobody else may read. */
import { randomBytes } from 'node:crypto';
import { link, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UserError } from '../explain.ts';

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const flush = async (path: string): Promise<void> => {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

const thereAlready = (path: string): UserError =>
  new UserError(`${path} is there already: name another file, with --to`);

/**
 * A rename replaces what came there after a look, and a link never does. Where there are no links (exFAT, some shares) it has to be the
 * two: better than to lose a back-up that took an hour.
 */
const give = async (part: string, path: string): Promise<void> => {
  try {
    await link(part, path);
  } catch {
    if (await exists(path)) throw thereAlready(path);
    return rename(part, path);
  }
  return rm(part);
};

/**
 * Has `write` fill a file beside `path` (mode 0600 from its first byte), and gives it that name when it is whole and on the
 * disk; answers its size in bytes. A file that is there is left alone: it may be the last good back-up. Whatever breaks it off
 * leaves nothing behind, but for a kill, which leaves a `.part`. Each run has one of its own: of two at once under one name
 * the second would else write on in what the first has just called whole.
 */
export const writeWhole = async (path: string, write: (part: string) => Promise<void>): Promise<number> => {
  if (await exists(path)) throw thereAlready(path);
  const part = `${path}.${randomBytes(4).toString('hex')}.part`;
  const made = await open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(`${path} cannot be written (${error.code}): name a file in a folder that can, with --to`);
  });
  await made.close();
  try {
    await write(part);
    await flush(part);
    await give(part, path);
    await flush(dirname(path));
    return (await stat(path)).size;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
};
