/** Finds the pg_dump programs of this machine. A pg_dump supports older servers, but no newer ones. */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import type { Env } from '#config/env.ts';

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

export type PgDump = { path: string; major: number };

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
export async function findPgDumps(env: Env): Promise<PgDump[]> {
  const paths = (await foldersOf(env)).map((folder) => join(folder, 'pg_dump'));
  const found = await Promise.all([...new Set(paths)].map(versionOf));
  return found.flat().toSorted((a, b) => a.major - b.major);
}
