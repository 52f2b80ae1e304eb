/** Stores the logins by server in credentials.json, readable only by its owner. */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

/** `expires` is the expiry of the access token in ISO 8601. */
export type Login = {
  issuer: string;
  token_endpoint: string;
  revocation_endpoint: string;
  access_token: string;
  refresh_token: string;
  expires: string;
  scope: string;
};

type Logins = Readonly<Record<string, Login>>;

const FILE = 'credentials.json';
const LOCK_PREFIX = `${FILE}.lock.`;
/** The owner of a lock waits for at most one response (`REQUEST_SECONDS` in json-request.ts), so an older lock belongs to a killed process. */
const STALE_LOCK_MS = 60_000;
const LOCK_RETRY_MS = 100;

/** Returns the folder of the credentials and of the records of running listeners. */
export function settingsFolder({ env }: Pick<Terminal, 'env'>): string {
  return join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'halcyon');
}

const hasCode = (error: unknown, code: string): boolean => (error as NodeJS.ErrnoException).code === code;

async function readLogins(path: string): Promise<Logins> {
  try {
    return { ...(JSON.parse(await readFile(path, 'utf8')) as Logins) };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return {};
    throw new UserError(`${path} cannot be read (${(error as Error).message}): delete it, and run halcyon login again`);
  }
}

/** Writes the file atomically: concurrent readers, also after a crash, read the complete old or new file. */
async function writeLogins(path: string, logins: Logins): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeFile(temporary, `${JSON.stringify(logins, null, 2)}\n`, { mode: 0o600, flag: 'wx', flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Returns the age of a file, 0 if it has been removed meanwhile. */
async function ageMs(path: string): Promise<number> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? 0 : Date.now() - found.mtimeMs;
}

/** Returns the lock files of other processes, and removes stale ones. Names are unique, so no live lock is removed with them. */
async function findOtherLocks(folder: string, own: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.startsWith(LOCK_PREFIX) && name !== own);
  const ages = await Promise.all(names.map((name) => ageMs(join(folder, name))));
  const isStale = (at: number): boolean => (ages[at] ?? 0) > STALE_LOCK_MS;
  await Promise.all(names.filter((_, at) => isStale(at)).map((name) => rm(join(folder, name), { force: true })));
  return names.filter((_, at) => !isStale(at));
}

/**
 * Runs the work under a lock: creates a lock file with a unique name, and retries if another one exists. A single lock file with a
 * fixed name fails after a kill: of two processes that find it stale, the second removes the new lock of the first.
 *
 * The server tolerates concurrent refreshes: it returns the same successor until that is used. A process that presents a replaced
 * refresh token later would be treated as a thief, and the login would end.
 */
async function withLock<T>(folder: string, work: () => Promise<T>): Promise<T> {
  for (;;) {
    const own = `${LOCK_PREFIX}${randomUUID()}`;
    const path = join(folder, own);
    await (await open(path, 'wx', 0o600)).close();
    try {
      if ((await findOtherLocks(folder, own)).length === 0) return await work();
    } finally {
      await rm(path, { force: true });
    }
    // A random pause, so that processes that saw each other's locks do not collide again.
    await pause(Math.random() * LOCK_RETRY_MS);
  }
}

type Change = (login: Login | undefined) => Promise<Login | undefined>;

export type Credentials = ReturnType<typeof openCredentials>;

export function openCredentials(terminal: Pick<Terminal, 'env'>) {
  const folder = settingsFolder(terminal);
  const path = join(folder, FILE);
  return {
    read: (): Promise<Logins> => readLogins(path),
    /** Replaces a server's login by the result of `change`, under a lock against concurrent changes. */
    change: async (server: string, change: Change): Promise<void> => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      // An existing folder may be readable by other users.
      await chmod(folder, 0o700);
      await withLock(folder, async () => {
        const { [server]: login, ...others } = await readLogins(path);
        const next = await change(login);
        if (next !== login) await writeLogins(path, next === undefined ? others : { ...others, [server]: next });
      });
    },
  };
}
