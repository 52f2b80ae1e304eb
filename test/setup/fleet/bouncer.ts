/** PgBouncer in transaction mode before a server: each transaction may have another session. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Cleanups } from '../cleanups.ts';
import { freePort } from '../free-port.ts';
import { isRoot, UNPRIVILEGED } from '../embedded-process.ts';
import { until } from '../until.ts';
import type { SocketAddress } from './server.ts';

const PROGRAM = '/usr/sbin/pgbouncer';
/** Fewer than the processes together would open: connections are shared, and waited for. */
const SERVER_CONNECTIONS = 12;

async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

/** Returns the address of the database through it. */
export async function startBouncer(address: SocketAddress, ends: Cleanups): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-bouncer-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const { directory, user, password, database } = address;
  const port = await freePort();
  const lines = [
    '[databases]',
    `${database} = host=${directory} port=5432 user=${user} password=${password}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    // Every client is mapped to the user above: authentication is not tested here.
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${SERVER_CONNECTIONS}`,
    'max_client_conn = 200',
  ];
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(file, lines.join('\n'));
  const account = isRoot ? UNPRIVILEGED : {};
  const child = spawn(PROGRAM, ['--quiet', file], { stdio: 'ignore', cwd: '/', ...account });
  const exited = once(child, 'exit');
  ends.after(async () => {
    child.kill('SIGINT');
    await exited;
  });
  await until(() => answers(port), Boolean);
  return `postgres://${user}@127.0.0.1:${port}/${database}`;
}
