/**
 * The secret key that is generated with the embedded database, in files of the data folder (mode 0600), and how one takes
 * over from it. Each step leaves a state that starts:
 *
 * - `secret-key` alone: the key that seals.
 * - and `secret-key.next`: `halcyon rekey` is sealing with that one, or was broken off. A start opens what either sealed.
 * - and `secret-key.old`: the key before, until a day after the change, for what repeats under idempotency keys.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { link, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { unreadable } from '#db/data-folder.ts';
import { DatabaseError } from '#db/pool.ts';
import type { Keys } from '#core/keys.ts';
import { UserError } from './explain.ts';

const KEY_BYTES = 32;
/** A day, as long as idempotency keys are kept, and an hour for what was under way. */
const OLD_KEPT_MS = 25 * 3_600_000;

const pathsOf = (dataDir: string) => {
  const path = join(dataDir, 'secret-key');
  return { path, next: `${path}.next`, old: `${path}.old` };
};

const absent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code === 'ENOENT') return undefined;
  throw error;
};

const present = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EEXIST') throw error;
};

/** Undefined where there is no such file. */
const readKey = async (path: string): Promise<Buffer | undefined> => {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw unreadable(path, error, 'Bring back the key that was there');
    return undefined;
  });
  if (text === undefined) return undefined;
  const key = Buffer.from(text.trim(), 'hex');
  if (key.length === KEY_BYTES) return key;
  throw new DatabaseError(`${path} is no secret key of 64 hex digits: bring back the one that was there`);
};

/** What was written or renamed in the folder stays, also when the machine loses its power. */
const flushFolder = async (dataDir: string): Promise<void> => {
  const folder = await open(dataDir);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
};

/** Nobody ever sees half of it. */
const writeKey = async (dataDir: string, path: string, key: Buffer): Promise<void> => {
  // What an earlier run left of it would keep its mode.
  await rm(`${path}.new`, { force: true });
  await writeFile(`${path}.new`, `${key.toString('hex')}\n`, { mode: 0o600, flush: true, flag: 'wx' });
  await rename(`${path}.new`, path);
  await flushFolder(dataDir);
};

/** The key as it is there afterwards: a start and a command beside it may make it at once, and the first of them wins. */
const makeKey = async (dataDir: string, path: string): Promise<Buffer> => {
  const made = randomBytes(KEY_BYTES);
  const own = `${path}.${randomUUID()}.new`;
  await writeFile(own, `${made.toString('hex')}\n`, { mode: 0o600, flush: true, flag: 'wx' });
  try {
    await link(own, path).catch(present);
  } finally {
    await rm(own);
  }
  await flushFolder(dataDir);
  return (await readKey(path)) ?? made;
};

const readOld = async (path: string, nowMs: number): Promise<Buffer | undefined> => {
  const made = await stat(path).catch(absent);
  if (made === undefined || made.mtimeMs + OLD_KEPT_MS > nowMs) return readKey(path);
  await rm(path, { force: true });
  return undefined;
};

/** The keys that are there, and their files; nothing is made. The first is the one that seals. */
export const findKeyFiles = async (dataDir: string): Promise<{ path: string; key: Buffer }[]> => {
  const { path, next, old } = pathsOf(dataDir);
  const found = await Promise.all([path, next, old].map(async (each) => ({ path: each, key: await readKey(each) })));
  return found.flatMap(({ path: each, key }) => (key === undefined ? [] : [{ path: each, key }]));
};

/** The keys, of which the first is made at the first call. */
export const openKeyFile = async (dataDir: string, nowMs: number): Promise<{ keys: Keys; from: string }> => {
  const { path, next, old } = pathsOf(dataDir);
  const key = (await readKey(path)) ?? (await makeKey(dataDir, path));
  const others = [await readKey(next), await readOld(old, nowMs)];
  return { keys: [key, ...others.filter((other) => other !== undefined)], from: path };
};

/**
 * The key that is to take over: one that an earlier call made, or a new one. Throws a `UserError` where the one before is still
 * kept, because a second change would take its place.
 */
export const openNextKey = async (dataDir: string): Promise<Buffer> => {
  const { next, old } = pathsOf(dataDir);
  const begun = await readKey(next);
  if (begun !== undefined) return begun;
  const made = await stat(old).catch(absent);
  if (made !== undefined) {
    const until = new Date(made.mtimeMs + OLD_KEPT_MS).toISOString();
    throw new UserError(
      `The key was changed already, and by the one before, in ${old}, is known what repeats under idempotency keys: ` +
        `change it again after ${until}, or delete that file, and such repeats are refused`,
    );
  }
  const key = randomBytes(KEY_BYTES);
  await writeKey(dataDir, next, key);
  return key;
};

/** The next key becomes the key, when everything is sealed with it. Answers where the old one is kept. */
export const promoteNextKey = async (dataDir: string): Promise<string> => {
  const { path, next, old } = pathsOf(dataDir);
  const key = await readKey(path);
  if (key !== undefined) await writeKey(dataDir, old, key);
  await rename(next, path);
  await flushFolder(dataDir);
  return old;
};
