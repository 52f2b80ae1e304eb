/**
 * A copy of the stopped embedded cluster. The binaries that npm brings are a server alone, without pg_dump and pg_basebackup;
 * what lies still needs neither.
 */
import { findRunning } from '#database/embedded.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { runProgram } from './run.ts';

const isRunning = async (dataDir: string): Promise<boolean> => (await findRunning(dataDir)) !== undefined;

/** Owners and modes are kept, so that it can be unpacked where it was; the secrets key stays out. */
export const copyCluster = async (terminal: Terminal, dataDir: string, file: string): Promise<void> => {
  await runProgram(terminal, {
    path: 'tar',
    // `-h`: where the user of the database cannot reach this folder, `postgres` is a link to where it can.
    args: '--create --numeric-owner -h --exclude=postmaster.pid --exclude=server.log* --exclude=.s.PGSQL.*'
      .split(' ')
      .concat(`--file=${file}`, `--directory=${dataDir}`, 'postgres', 'postgres-password'),
    env: terminal.env,
    file,
  });
  if (await isRunning(dataDir))
    throw new UserError(
      `Halcyon was started on ${dataDir} meanwhile, so the copy is not of one moment: run this again`,
    );
};
