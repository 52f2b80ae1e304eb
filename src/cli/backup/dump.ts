/** Dumps a running database consistently with pg_dump. */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { parseDatabaseUrl } from '#core/database-url.ts';
import type { DatabaseAddress } from '#db/pool.ts';
import type { Env } from '#config/env.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { runProgram } from './backup-run.ts';

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
