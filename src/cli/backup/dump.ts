/** Dumps a running database consistently with pg_dump. */
import { execFile, spawn } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { parseDatabaseUrl } from '#core/database-url.ts';
import type { DatabaseAddress } from '#db/pool.ts';
import type { Env } from '#config/env.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

// Finds the pg_dump programs of this machine. A pg_dump supports older servers, but no newer ones.

/** Folders with several versions side by side: Debian's and Ubuntu's, Red Hat's, Homebrew's. */
const FOLDERS = ['/usr/lib/postgresql', '/usr', '/opt/homebrew/opt', '/usr/local/opt'];
const VERSIONED = /^(?:[0-9]+|pgsql-[0-9]+|postgresql@[0-9]+|libpq)$/;

async function foldersOf(env: Env): Promise<string[]> {
  const versioned = await Promise.all(
    FOLDERS.map(async (folder) => {
      const names = await readdir(folder).catch(() => []);
      return names.filter((name) => VERSIONED.test(name)).map((name) => join(folder, name, 'bin'));
    }),
  );
  return [...(env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== ''), ...versioned.flat()];
}

type PgDump = { path: string; major: number };

async function versionOf(path: string): Promise<PgDump[]> {
  try {
    const { stdout } = await promisify(execFile)(path, ['--version'], { timeout: 5_000 });
    const major = Number(/ ([0-9]+)[.a-z0-9]* ?/.exec(stdout)?.[1]);
    return Number.isInteger(major) ? [{ path, major }] : [];
  } catch {
    return [];
  }
}

/** Returns all of them, the oldest first. */
async function findPgDumps(env: Env): Promise<PgDump[]> {
  const paths = (await foldersOf(env)).map((folder) => join(folder, 'pg_dump'));
  const found = await Promise.all([...new Set(paths)].map(versionOf));
  return found.flat().toSorted((a, b) => a.major - b.major);
}

/** Returns the connection for pg_dump, with the password in the environment: all users of the machine can read arguments. */
export function connectionOf(address: DatabaseAddress): { name: string; env: Env } {
  if (address.kind === 'socket') {
    const { directory, user, password, database } = address;
    return { name: database, env: { PGHOST: directory, PGPORT: '5432', PGUSER: user, PGPASSWORD: password } };
  }
  const { password } = parseDatabaseUrl(address.url);
  if (password === undefined) return { name: address.url, env: {} };
  const name = address.url
    .replace(/(?<=^postgres(?:ql)?:\/\/[^:/?]*):[^/?]*(?=@)/, '')
    .replace(/(?<=[?&])password=[^&]*&?/, '');
  return { name, env: { PGPASSWORD: password } };
}

/** Writes the dump, of an exported snapshot if there is one; throws a `UserError` if there is no pg_dump as new as the server (`major`). */
export async function dump(
  terminal: Terminal,
  from: { address: DatabaseAddress; major: number; snapshot?: string },
  file: string,
): Promise<void> {
  const dumps = await findPgDumps(terminal.env);
  const found = dumps.find(({ major }) => major >= from.major);
  if (found === undefined) {
    const newest = dumps.at(-1);
    const available = newest === undefined ? 'there is none' : `the newest is ${newest.major} (${newest.path})`;
    const alternative = from.address.kind === 'socket' ? ', or stop Halcyon and run this again to copy the folder' : '';
    throw new UserError(
      `A dump of PostgreSQL ${from.major} requires pg_dump ${from.major} or newer, and ${available}: install postgresql-client-${from.major}${alternative}`,
    );
  }
  const { name, env } = connectionOf(from.address);
  await runProgram(terminal, {
    path: found.path,
    args: [
      '--format=custom',
      '--no-password',
      `--file=${file}`,
      `--dbname=${name}`,
      ...(from.snapshot === undefined ? [] : [`--snapshot=${from.snapshot}`]),
    ],
    env: { ...terminal.env, ...env },
    file,
  });
}

// Runs a program that writes a file, with progress, and ends it on a stop signal.

const PROGRESS_MS = 500;
/** Without a terminal, for the log. */
const LOG_PROGRESS_MS = 10_000;
const STDERR_CHARACTERS = 2_000;
const MIB = 1024 ** 2;

function createProgress({ showProgress, warn }: Terminal, file: string): () => void {
  const show = async (write: (line: string) => void): Promise<void> => {
    const found = await stat(file).catch(() => undefined);
    if (found !== undefined) write(`${(found.size / MIB).toFixed(1)} MiB written`);
  };
  const timer = setInterval(
    () => void show(showProgress ?? warn),
    showProgress === undefined ? LOG_PROGRESS_MS : PROGRESS_MS,
  );
  return () => {
    clearInterval(timer);
    showProgress?.('');
  };
}

/** Runs the program; throws a `UserError` with the end of its stderr if it fails, and on a stop signal, which ends it. */
export async function runProgram(
  terminal: Terminal,
  program: { path: string; args: readonly string[]; env: Env; file: string },
): Promise<void> {
  const { path, args, env, file } = program;
  // A separate process group: ctrl-C reaches only this process, so the program does not print an error of its own.
  const child = spawn(path, args, { env: { ...env }, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    child.kill('SIGTERM');
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-STDERR_CHARACTERS)));
  const stopProgress = createProgress(terminal, file);
  const { promise: ended, resolve } = Promise.withResolvers<string | undefined>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, by) => resolve(code === 0 ? undefined : stderr.trim() || `it ended with ${by ?? code}`));
  const failure = await ended;
  stopProgress();
  if (signal !== undefined) throw new UserError(`${signal}: nothing was written; run this again`, EXIT.interrupted);
  if (failure === undefined) return;
  const line = failure.replaceAll(/\s*\n\s*/g, '; ');
  throw new UserError(`${path} failed, and nothing was written: ${line}. Fix this, then run this again`);
}
