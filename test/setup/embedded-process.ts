/**
 * Starts a process that runs an embedded PostgreSQL, to be killed by the test.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { until } from './until.ts';

type Context = { after: (fn: () => Promise<void>) => void };
type Said = { address?: DatabaseAddress; exited?: string; interrupted?: boolean; error?: string };

export const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };
export const isRoot = process.getuid?.() === 0;

/** Creates a folder, removed at the end with the target of its database link. The default mode is 0755. */
export async function temporaryFolder(
  t: Context,
  options: { mode?: number; owner?: typeof UNPRIVILEGED } = {},
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-fault-'));
  await chmod(folder, options.mode ?? 0o755);
  if (options.owner) await chown(folder, options.owner.uid, options.owner.gid);
  t.after(async () => {
    const home = await realpath(join(folder, 'postgres')).catch(() => folder);
    await rm(home, { recursive: true, force: true, maxRetries: 3 });
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  return folder;
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export async function ended(pid: number): Promise<void> {
  await until(
    async () => isAlive(pid),
    (alive) => !alive,
  );
}

/** Returns the process id in the cluster's pid file. */
export async function postmasterOf(dataDir: string): Promise<number> {
  return Number((await readFile(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8')).split('\n')[0]);
}

export async function ask(address: DatabaseAddress | undefined, statement: string): Promise<unknown[]> {
  if (address === undefined) throw new Error('No server is running');
  const sql = openPool(address, { connections: 1, applicationName: 'test' });
  try {
    return [...(await sql.unsafe(statement))];
  } finally {
    await sql.end({ timeout: 0 });
  }
}

/** Starts the program in its own process group, as `user` if given. `next` returns its next line of output. */
export function hold(t: Context, dataDir: string, user?: typeof UNPRIVILEGED) {
  const program = join(import.meta.dirname, 'run-embedded-database.ts');
  const child = spawn(process.execPath, [program, dataDir], { stdio: 'pipe', detached: true, cwd: '/', ...user });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const log = text(child.stderr);
  const exit = once(child, 'exit');
  const release = async (): Promise<void> => {
    child.stdin.end();
    await exit;
  };
  t.after(release);
  return {
    pid: child.pid ?? 0,
    log,
    next: async (): Promise<Said> => {
      const { value, done } = await lines.next();
      return done ? { error: `ended, having said: ${await log}` } : (JSON.parse(value) as Said);
    },
    kill: async (): Promise<void> => {
      child.kill('SIGKILL');
      await exit;
    },
    release,
  };
}
