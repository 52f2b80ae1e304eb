/** Dumps a running database consistently with pg_dump. */
import { parseDatabaseUrl } from '#core/database-url.ts';
import type { DatabaseAddress } from '#db/pool.ts';
import type { Env } from '#config/env.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { findPgDumps } from './pg-dump.ts';
import { runProgram } from './run.ts';

/** Returns the connection for pg_dump, with the password in the environment: all users of the machine can read arguments. */
export function connectionOf(address: DatabaseAddress): { name: string; env: Env } {
  if (address.kind === 'socket') {
    const { directory, user, password, database } = address;
    return { name: database, env: { PGHOST: directory, PGPORT: '5432', PGUSER: user, PGPASSWORD: password } };
  }
  const { password } = parseDatabaseUrl(address.url);
  if (password === undefined) return { name: address.url, env: {} };
  const name = address.url
    .replace(/(?<=^postgres(?:ql)?:\/\/[^:/?]*):[^/?]*(?=@)/, '')
    .replace(/(?<=[?&])password=[^&]*&?/, '');
  return { name, env: { PGPASSWORD: password } };
}

/** Writes the dump, of an exported snapshot if there is one; throws a `UserError` if there is no pg_dump as new as the server (`major`). */
export async function dump(
  terminal: Terminal,
  from: { address: DatabaseAddress; major: number; snapshot?: string },
  file: string,
): Promise<void> {
  const dumps = await findPgDumps(terminal.env);
  const found = dumps.find(({ major }) => major >= from.major);
  if (found === undefined) {
    const newest = dumps.at(-1);
    const available = newest === undefined ? 'there is none' : `the newest is ${newest.major} (${newest.path})`;
    const alternative = from.address.kind === 'socket' ? ', or stop Halcyon and run this again to copy the folder' : '';
    throw new UserError(
      `A dump of PostgreSQL ${from.major} requires pg_dump ${from.major} or newer, and ${available}: install postgresql-client-${from.major}${alternative}`,
    );
  }
  const { name, env } = connectionOf(from.address);
  await runProgram(terminal, {
    path: found.path,
    args: [
      '--format=custom',
      '--no-password',
      `--file=${file}`,
      `--dbname=${name}`,
      ...(from.snapshot === undefined ? [] : [`--snapshot=${from.snapshot}`]),
    ],
    env: { ...terminal.env, ...env },
    file,
  });
}
