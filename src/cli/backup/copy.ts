/**
 * A copy of the stopped embedded cluster. The binaries that npm brings are a server alone, without pg_dump and pg_basebackup;
 * what lies still needs neither.
 */
import { findServer } from '#db/embedded.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { runProgram } from './run.ts';

/** Owners and modes are kept, so that it can be unpacked where it was; the secrets key stays out. */
export const copyCluster = async (terminal: Terminal, dataDir: string, file: string): Promise<void> => {
  const server = await findServer(dataDir);
  if (server !== undefined)
    throw new UserError(
      `PostgreSQL (process ${server}) runs on ${dataDir} and takes no connections, so it can be neither dumped nor copied: stop Halcyon, or wait until it answers, then run this again`,
    );
  await runProgram(terminal, {
    path: 'tar',
    // `-h`: where the user of the database cannot reach this folder, `postgres` is a link to where it can.
    args: '--create --numeric-owner -h --exclude=postmaster.pid --exclude=server.log* --exclude=.s.PGSQL.*'
      .split(' ')
      .concat(`--file=${file}`, `--directory=${dataDir}`, 'postgres', 'postgres-password'),
    env: terminal.env,
    file,
  });
  if ((await findServer(dataDir)) !== undefined)
    throw new UserError(
      `Halcyon was started on ${dataDir} meanwhile, so the copy is not of one moment: run this again`,
    );
};
