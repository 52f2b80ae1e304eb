/** Server processes over the database of a test, for concurrent requests and kills. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseAddress } from '#db/pool.ts';
import { databaseEnvOf } from './database.ts';
import { COMPILED } from './child-environment.ts';
import type { Cleanups } from './cleanups.ts';

const ROOT = join(import.meta.dirname, '../..');

export type ServerProcess = {
  origin: string;
  /** Sends the signal and waits for the end. */
  end: (signal: NodeJS.Signals) => Promise<void>;
};

const isOver = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

/**
 * Returns a function that starts `halcyon serve --no-deliver` on a port. The processes share one secret key, and end with the
 * test.
 */
export function serversOver(address: DatabaseAddress, ends: Cleanups, env: Record<string, string>) {
  const common = {
    ...databaseEnvOf(address),
    PATH: process.env['PATH'] ?? '',
    HALCYON_DATA: join(tmpdir(), 'halcyon-server-process'),
    HALCYON_SECRET_KEY: randomBytes(32).toString('hex'),
    LOG_LEVEL: 'error',
    ...COMPILED,
    ...env,
  };
  const running = new Map<ChildProcess, Promise<unknown>>();
  ends.after(async () => {
    for (const child of running.keys()) child.kill('SIGTERM');
    await Promise.all(running.values());
  });
  return async (port: number): Promise<ServerProcess> => {
    const child = spawn(process.execPath, [join(ROOT, 'src/main.ts'), 'serve', '--no-deliver'], {
      env: { ...common, PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(child, 'exit').then(() => running.delete(child));
    running.set(child, exited);
    const { promise: ready, resolve } = Promise.withResolvers<'ready'>();
    child.stderr.pipe(process.stderr);
    child.stderr.setEncoding('utf8').on('data', (said: string) => said.includes('is ready.') && resolve('ready'));
    if ((await Promise.race([ready, exited])) !== 'ready') throw new Error('The server ended before it was ready');
    return {
      origin: `http://127.0.0.1:${port}`,
      end: async (signal) => {
        if (!isOver(child)) child.kill(signal);
        await exited;
      },
    };
  };
}
