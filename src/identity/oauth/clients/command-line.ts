/** The client of our own command line. Every Halcyon has it under the same name, so `halcyon login` needs no registration. */
import type { Sql } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import { createPublicClient } from './clients.ts';
import { findClient } from './clients-sql.ts';

export const COMMAND_LINE_CLIENT = 'halcyon-cli';

/**
 * Makes it where it is missing. Of several processes that start at once one makes it; the others find the name taken, as
 * whoever comes while housekeeping is not yet through with a deleted one.
 */
export const provideCommandLineClient = async (sql: Sql, now: Date): Promise<void> => {
  if ((await findClient(sql, COMMAND_LINE_CLIENT)) !== undefined) return;
  try {
    await createPublicClient(sql, {
      clientId: COMMAND_LINE_CLIENT,
      name: 'Halcyon command line',
      description:
        'The halcyon command in a terminal on your computer. Allow it only if you have just typed halcyon login.',
      // It listens on whatever port is free (RFC 8252 §7.3).
      redirectUris: ['http://127.0.0.1/callback', 'http://[::1]/callback'],
      trusted: false,
      now,
    });
  } catch (error) {
    if (!(error instanceof Problem && error.status === 409)) throw error;
  }
};
