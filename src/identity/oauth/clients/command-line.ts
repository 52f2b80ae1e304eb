/**
 * The built-in client of the command line. It has the same id in every installation, so `halcyon login` needs no
 * registration.
 */
import type { Sql } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import { createPublicClient } from './clients.ts';
import { findClient } from './clients-sql.ts';

export const COMMAND_LINE_CLIENT = 'halcyon-cli';

/**
 * Creates the client if it is missing. A 409 is ignored: another process that starts concurrently has created it, or
 * retention has not yet deleted an old row with its id.
 */
export async function provideCommandLineClient(sql: Sql, now: Date): Promise<void> {
  if ((await findClient(sql, COMMAND_LINE_CLIENT)) !== undefined) return;
  try {
    await createPublicClient(sql, {
      clientId: COMMAND_LINE_CLIENT,
      name: 'Halcyon command line',
      description:
        'The halcyon command in a terminal on your computer. Allow it only if you have just typed halcyon login.',
      // The command listens on any free port (RFC 8252 §7.3).
      redirectUris: ['http://127.0.0.1/callback', 'http://[::1]/callback'],
      trusted: false,
      allowsDeviceGrant: true,
      now,
    });
  } catch (error) {
    if (!(error instanceof Problem && error.status === 409)) throw error;
  }
}
