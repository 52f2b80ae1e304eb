/** What `halcyon login` was given, by server: credentials.json, which its owner alone can read. */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
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

const FILE = 'credentials.json';
const MARK = `${FILE}.lock.`;
/** Whoever has one waits for one answer of a server at most (`REQUEST_MS` in exchange.ts), so an older one is a dead one's. */
const MARK_STALE_MS = 60_000;
const MARK_LOOK_MS = 100;

/** Beside the credentials stand the marks of running listeners. */
export const settingsFolder = ({ env }: Pick<Terminal, 'env'>): string =>
  join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'halcyon');

const hasCode = (error: unknown, code: string): boolean => (error as NodeJS.ErrnoException).code === code;

const readLogins = async (path: string): Promise<Logins> => {
  try {
    return { ...(JSON.parse(await readFile(path, 'utf8')) as Logins) };
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return {};
    throw new UserError(`${path} cannot be read (${(error as Error).message}): delete it, and run halcyon login again`);
  }
};

/** Under another name first: whoever reads it meanwhile, and a crash at any moment, finds the whole old or the whole new one. */
const writeLogins = async (path: string, logins: Logins): Promise<void> => {
  const half = `${path}.${randomUUID()}`;
  try {
    await writeFile(half, `${JSON.stringify(logins, null, 2)}\n`, { mode: 0o600, flag: 'wx', flush: true });
    await rename(half, path);
  } catch (error) {
    await rm(half, { force: true });
    throw error;
  }
};

/** None of what is gone meanwhile. */
const ageMs = async (path: string): Promise<number> => {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? 0 : Date.now() - found.mtimeMs;
};

/** Those of others that are there now; what a dead one has left is swept, and as no two have one name, nobody else's with it. */
const othersMarks = async (folder: string, own: string): Promise<string[]> => {
  const names = (await readdir(folder)).filter((name) => name.startsWith(MARK) && name !== own);
  const ages = await Promise.all(names.map((name) => ageMs(join(folder, name))));
  const isDead = (at: number): boolean => (ages[at] ?? 0) > MARK_STALE_MS;
  await Promise.all(names.filter((_, at) => isDead(at)).map((name) => rm(join(folder, name), { force: true })));
  return names.filter((_, at) => !isDead(at));
};

/**
 * Whoever wants to change something leaves a mark, and then looks for those of others: of two at once one at least sees the other,
 * takes its mark back and tries again. A single file of a fixed name would do until its owner is killed: of two that find it stale
 * the second removes what the first has just made anew.
 *
 * Two refreshes at once are harmless to a server that gives the same successor for ten seconds. What must not be is one that
 * presents later what the other has replaced: it would be taken for a thief, and the login would end.
 */
const alone = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  for (;;) {
    const own = `${MARK}${randomUUID()}`;
    const path = join(folder, own);
    await (await open(path, 'wx', 0o600)).close();
    try {
      if ((await othersMarks(folder, own)).length === 0) return await work();
    } finally {
      await rm(path, { force: true });
    }
    // By chance, so that those who saw each other do not meet again.
    await pause(Math.random() * MARK_LOOK_MS);
  }
};

export const openCredentials = (terminal: Pick<Terminal, 'env'>): Credentials => {
  const folder = settingsFolder(terminal);
  const path = join(folder, FILE);
  return {
    read: () => readLogins(path),
    change: async (server, change) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      // It may have been there before, for everybody to see.
      await chmod(folder, 0o700);
      await alone(folder, async () => {
        const { [server]: login, ...others } = await readLogins(path);
        const next = await change(login);
        if (next !== login) await writeLogins(path, next === undefined ? others : { ...others, [server]: next });
      });
    },
  };
};
