/**
 * Generates and rotates the secret key of the embedded database, in files of the data folder (mode 0600). Halcyon can start in
 * each of these states:
 *
 * - `secret-key` alone: the key that seals.
 * - with `secret-key.next`: `halcyon rekey` is running with that key, or was interrupted. A start opens with both.
 * - with `secret-key.old`: the previous key, until a day after the change, for requests repeated with an idempotency key.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { link, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unreadable } from '#db/data-folder.ts';
import { DatabaseError } from '#db/pool.ts';
import type { Keys } from '#core/keys.ts';
import { UserError } from './explain.ts';

const KEY_BYTES = 32;
/** A day, as long as idempotency keys are kept, and an hour for running requests. */
const OLD_KEPT_MS = 25 * 3_600_000;

function pathsOf(dataDir: string) {
  const path = join(dataDir, 'secret-key');
  return { path, next: `${path}.next`, old: `${path}.old` };
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}

function present(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}

/** Returns the key in a file; undefined without the file. */
async function readKey(path: string): Promise<Buffer | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw unreadable(path, error, 'Restore the original key');
    return undefined;
  });
  if (text === undefined) return undefined;
  const key = Buffer.from(text.trim(), 'hex');
  if (key.length === KEY_BYTES) return key;
  throw new DatabaseError(`${path} is no secret key of 64 hex digits: restore the original key`);
}

/** Flushes a file, or a folder, so that its new and renamed files survive a power failure. */
export async function flush(path: string): Promise<void> {
  await using handle = await open(path);
  await handle.sync();
}

async function writeKey(dataDir: string, path: string, key: Buffer): Promise<void> {
  // A file of an interrupted run would keep its mode.
  await rm(`${path}.new`, { force: true });
  await writeFile(`${path}.new`, `${key.toString('hex')}\n`, { mode: 0o600, flush: true, flag: 'wx' });
  await rename(`${path}.new`, path);
  await flush(dataDir);
}

/** Creates the key and returns the stored one: if two processes create it concurrently, the first wins. */
async function createKey(dataDir: string, path: string): Promise<Buffer> {
  const key = randomBytes(KEY_BYTES);
  const own = `${path}.${randomUUID()}.new`;
  await writeFile(own, `${key.toString('hex')}\n`, { mode: 0o600, flush: true, flag: 'wx' });
  try {
    await link(own, path).catch(present);
  } finally {
    await rm(own);
  }
  await flush(dataDir);
  return (await readKey(path)) ?? key;
}

async function readOld(path: string, nowMs: number): Promise<Buffer | undefined> {
  const file = await stat(path).catch(absent);
  if (file === undefined || file.mtimeMs + OLD_KEPT_MS > nowMs) return readKey(path);
  await rm(path, { force: true });
  return undefined;
}

/** Returns the existing keys and their files, the sealing key first; creates nothing. */
export async function findKeyFiles(dataDir: string): Promise<{ path: string; key: Buffer }[]> {
  const { path, next, old } = pathsOf(dataDir);
  const found = await Promise.all([path, next, old].map(async (each) => ({ path: each, key: await readKey(each) })));
  return found.flatMap(({ path: each, key }) => (key === undefined ? [] : [{ path: each, key }]));
}

/** Returns the keys, the sealing key first; creates it at the first call. */
export async function openKeyFile(dataDir: string, nowMs: number): Promise<{ keys: Keys; from: string }> {
  const { path, next, old } = pathsOf(dataDir);
  const key = (await readKey(path)) ?? (await createKey(dataDir, path));
  const others = [await readKey(next), await readOld(old, nowMs)];
  return { keys: [key, ...others.filter((other) => other !== undefined)], from: path };
}

/**
 * Returns the next key: that of an interrupted change, or a new one. Throws a `UserError` while the previous key is kept, because a
 * second change would overwrite it.
 */
export async function openNextKey(dataDir: string): Promise<Buffer> {
  const { next, old } = pathsOf(dataDir);
  const pending = await readKey(next);
  if (pending !== undefined) return pending;
  const oldFile = await stat(old).catch(absent);
  if (oldFile !== undefined) {
    const until = new Date(oldFile.mtimeMs + OLD_KEPT_MS).toISOString();
    throw new UserError(
      `The key was changed recently, and requests repeated with an idempotency key still need the previous key in ${old}: ` +
        `change it again after ${until}, or delete that file; then such repeats are refused`,
    );
  }
  const key = randomBytes(KEY_BYTES);
  await writeKey(dataDir, next, key);
  return key;
}

/** Makes the next key the sealing key, after everything is sealed with it. Returns the file of the previous key. */
export async function promoteNextKey(dataDir: string): Promise<string> {
  const { path, next, old } = pathsOf(dataDir);
  const key = await readKey(path);
  if (key !== undefined) await writeKey(dataDir, old, key);
  await rename(next, path);
  await flush(dataDir);
  return old;
}
