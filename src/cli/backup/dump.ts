/** A dump of a running database, of one moment, by pg_dump. */
import type { DatabaseAddress } from '#db/pool.ts';
import type { Env } from '#config/env.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { findPgDumps } from './pg-dump.ts';
import { runProgram } from './run.ts';

/** Everybody on the machine reads arguments, and nobody else our environment: the password goes there. */
export const connectionOf = (address: DatabaseAddress): { name: string; env: Env } => {
  if (address.kind === 'socket') {
    const { directory, user, password, database } = address;
    return { name: database, env: { PGHOST: directory, PGPORT: '5432', PGUSER: user, PGPASSWORD: password } };
  }
  // Taken apart by hand: a list of hosts is no URL to Node, and one to PostgreSQL.
  const [, scheme = '', user = '', password, rest = ''] =
    /^(postgres(?:ql)?:\/\/)([^:@/]*)(?::([^@/]*))?(@.*)$/.exec(address.url) ?? [];
  if (password === undefined) return { name: address.url, env: {} };
  return { name: `${scheme}${user}${rest}`, env: { PGPASSWORD: decodeURIComponent(password) } };
};

/** Throws a `UserError` where there is no pg_dump that is as new as the server (`major`). */
export const dump = async (
  terminal: Terminal,
  from: { address: DatabaseAddress; major: number },
  file: string,
): Promise<void> => {
  const dumps = await findPgDumps(terminal.env);
  const found = dumps.find(({ major }) => major >= from.major);
  if (found === undefined) {
    const newest = dumps.at(-1);
    const there = newest === undefined ? 'there is none' : `the newest is ${newest.major} (${newest.path})`;
    const stopped =
      from.address.kind === 'socket' ? ', or stop Halcyon and run this again: then it copies the folder' : '';
    throw new UserError(
      `A dump of PostgreSQL ${from.major} takes a pg_dump of ${from.major} or newer, and ${there}: install postgresql-client-${from.major}${stopped}`,
    );
  }
  const { name, env } = connectionOf(from.address);
  await runProgram(terminal, {
    path: found.path,
    args: ['--format=custom', '--no-password', `--file=${file}`, `--dbname=${name}`],
    env: { ...terminal.env, ...env },
    file,
  });
};
