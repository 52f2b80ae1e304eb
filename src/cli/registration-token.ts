/** `halcyon client registration-token`: creates and revokes tokens for client registration. */
import type { Command } from 'commander';
import {
  createRegistrationToken,
  idOfInvitation,
  revokeRegistrationToken,
} from '#identity/oauth/registration/registration.ts';
import { printResult, examples } from './command.ts';
import { UsageError, UserError } from './explain.ts';
import { withContext } from './command-context.ts';
import type { Terminal } from './terminal.ts';

const DAYS_MAX = 365;

function daysOf(text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1 && count <= DAYS_MAX) return count;
  throw new UsageError(`--days must be a whole number from 1 to ${DAYS_MAX}`);
}

const createToken = (terminal: Terminal, days: number): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const token = await createRegistrationToken(sql, { days, now });
    printResult(terminal, { id: idOfInvitation(token), registration_token: token, days });
  });

const revoke = (terminal: Terminal, idOrToken: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const id = await revokeRegistrationToken(sql, idOrToken, now);
    if (id === undefined) throw new UserError('--revoke: there is no such registration token, or it has expired');
    printResult(terminal, { id, revoked: true });
  });

export function addRegistrationToken(command: Command, terminal: Terminal): void {
  command
    .command('registration-token')
    .description('create a token for client registration (POST /register); shown only once')
    .option('--days <days>', 'how long it is valid', '7')
    .option('--revoke <id>', 'revoke a token instead, by its id or by the token itself')
    .addHelpText(
      'after',
      examples(
        'halcyon client registration-token --days 30',
        'halcyon client registration-token --revoke 5f0c1d9e8b7a6f5e',
      ),
    )
    .action(async (options: { days: string; revoke?: string }) =>
      options.revoke === undefined ? createToken(terminal, daysOf(options.days)) : revoke(terminal, options.revoke),
    );
}
