/** What `halcyon login` was given, by server: credentials.json, which its owner alone can read. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

/** `expires` is the access token's end, in ISO 8601. */
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

export type Credentials = {
  read: () => Promise<Logins>;
  /** Puts what `change` makes of a server's login in its place; nobody else reads or writes meanwhile who changes something. */
  change: (server: string, change: (login: Login | undefined) => Promise<Login | undefined>) => Promise<void>;
};

/** Whoever holds the lock waits for one answer of a server at most (`REQUEST_MS` in exchange.ts), so an older one is a dead one's. */
const LOCK_STALE_MS = 60_000;
const LOCK_LOOK_MS = 50;

/** Beside the credentials stand the marks of running listeners. */
export const settingsFolder = ({ env }: Pick<Terminal, 'env'>): string =>
  join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'halcyon');

const hasCode = (error: unknown, code: string): boolean => (error as NodeJS.ErrnoException).code === code;

const readLogins = async (path: string): Promise<Logins> => {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Logins;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return {};
    throw new UserError(`${path} cannot be read (${(error as Error).message}): delete it, and run halcyon login again`);
  }
};

/** Under another name first: whoever reads it meanwhile, and a crash at any moment, finds the whole old or the whole new one. */
const writeLogins = async (path: string, logins: Logins): Promise<void> => {
  const half = `${path}.${randomBytes(4).toString('hex')}`;
  const file = await open(half, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(logins, null, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(half, path);
};

const ageMs = async (path: string): Promise<number> => {
  try {
    return Date.now() - (await stat(path)).mtimeMs;
  } catch {
    return 0;
  }
};

/**
 * Two refreshes at once are harmless to a server that gives the same successor for ten seconds. What must not be is one that
 * presents later what the other has replaced: it would be taken for a thief, and the login would end.
 */
const locked = async <T>(path: string, work: () => Promise<T>): Promise<T> => {
  for (;;) {
    try {
      await (await open(path, 'wx', 0o600)).close();
      break;
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
    if ((await ageMs(path)) > LOCK_STALE_MS) await rm(path, { force: true });
    else await pause(LOCK_LOOK_MS);
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
};

export const openCredentials = (terminal: Pick<Terminal, 'env'>): Credentials => {
  const folder = settingsFolder(terminal);
  const path = join(folder, 'credentials.json');
  return {
    read: () => readLogins(path),
    change: async (server, change) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      // It may have been there before, for everybody to see.
      await chmod(folder, 0o700);
      await locked(`${path}.lock`, async () => {
        const { [server]: login, ...others } = await readLogins(path);
        const next = await change(login);
        if (next !== login) await writeLogins(path, next === undefined ? others : { ...others, [server]: next });
      });
    },
  };
};
