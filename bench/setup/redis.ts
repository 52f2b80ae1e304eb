/** The Redis that Debian brings, on a socket in a temporary folder and on a port of loopback; nothing of the machine's own is touched. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../test/setup/free-port.ts';
import { until } from '../../test/setup/until.ts';
import { processorMsOf } from '../../test/setup/processor-time.ts';
import type { Defer } from './run.ts';

const PROGRAM = 'redis-server';
const START_MS = 10_000;

/** Every write is in the file within a second: a crash of the machine loses that much of what was acknowledged. */
const settings = {
  appendonly: 'yes',
  appendfsync: 'everysec',
  save: '',
  'maxmemory-policy': 'noeviction',
  'auto-aof-rewrite-percentage': '0',
};

/** `url`: the same server on a port of loopback. */
export type Redis = { socket: string; url: string; settings: string; cpuMs: () => Promise<number> };

/** Undefined where the machine has none. */
export async function startRedis(defer: Defer): Promise<Redis | undefined> {
  const version = await promisify(execFile)(PROGRAM, ['--version']).catch(() => undefined);
  if (version === undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-redis-'));
  defer(() => rm(folder, { recursive: true, force: true }));
  const socket = join(folder, 'redis.sock');
  const port = await freePort();
  const options = Object.entries({
    ...settings,
    bind: '127.0.0.1',
    port: String(port),
    unixsocket: socket,
    dir: folder,
  });
  const args = options.flatMap(([name, value]) => [`--${name}`, value]);
  const server = spawn(PROGRAM, args, { stdio: 'ignore' });
  const ended = once(server, 'exit');
  defer(async () => {
    server.kill();
    await ended;
  });
  await until(
    () => stat(socket).catch(() => undefined),
    (found) => found !== undefined,
    START_MS,
  );
  const [, number = ''] = /v=(\S+)/.exec(version.stdout) ?? [];
  const named = Object.entries(settings).filter(([, value]) => value !== '');
  return {
    socket,
    url: `redis://127.0.0.1:${port}`,
    settings: `Redis ${number} ${named.map(([name, value]) => `${name}=${value}`).join(' ')}`,
    cpuMs: () => processorMsOf(String(server.pid)),
  };
}
