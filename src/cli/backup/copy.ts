/** Copies the stopped embedded cluster with tar, because the npm binaries contain neither pg_dump nor pg_basebackup. */
import { findServer } from '#db/embedded.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { runProgram } from './run.ts';

/** Copies the cluster to a tar file with owners and modes, without the secret key. */
export async function copyCluster(terminal: Terminal, dataDir: string, file: string): Promise<void> {
  const server = await findServer(dataDir);
  if (server !== undefined)
    throw new UserError(
      `PostgreSQL (process ${server}) runs on ${dataDir} and accepts no connections, so it can be neither dumped nor copied: stop Halcyon, or wait until it responds, then run this again`,
    );
  await runProgram(terminal, {
    path: 'tar',
    // `-h` follows links: `postgres` is a link if the user of the database cannot reach this folder.
    args: '--create --numeric-owner -h --exclude=postmaster.pid --exclude=server.log* --exclude=.s.PGSQL.*'
      .split(' ')
      .concat(`--file=${file}`, `--directory=${dataDir}`, 'postgres', 'postgres-password'),
    env: terminal.env,
    file,
  });
  if ((await findServer(dataDir)) !== undefined)
    throw new UserError(`Halcyon was started on ${dataDir} meanwhile, so the copy is not consistent: run this again`);
}
