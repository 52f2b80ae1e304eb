/** `halcyon client registration-token`: lets programs register clients, and takes that back. */
import type { Command } from 'commander';
import {
  createRegistrationToken,
  idOfInvitation,
  revokeRegistrationToken,
} from '#identity/oauth/registration/invitation.ts';
import { answer, examples } from './command.ts';
import { UsageError, UserError } from './explain.ts';
import { asGuest } from './guest.ts';
import type { Terminal } from './terminal.ts';

const DAYS_MAX = 365;

const daysOf = (text: string): number => {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1 && count <= DAYS_MAX) return count;
  throw new UsageError(`--days must be a whole number from 1 to ${DAYS_MAX}`);
};

const invite = (terminal: Terminal, days: number): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const token = await createRegistrationToken(sql, { days, now: new Date() });
    answer(terminal, { id: idOfInvitation(token), registration_token: token, days });
  });

const revoke = (terminal: Terminal, which: string): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const id = await revokeRegistrationToken(sql, which, new Date());
    if (id === undefined) throw new UserError('--revoke: there is no such registration token, or it has run out');
    answer(terminal, { id, revoked: true });
  });

export const addRegistrationToken = (command: Command, terminal: Terminal): void => {
  command
    .command('registration-token')
    .description('make a token with which programs may register clients (POST /register); shown this once')
    .option('--days <days>', 'for how long it works', '7')
    .option('--revoke <id>', 'end one instead: by the id that was printed with it, or by the token itself')
    .addHelpText(
      'after',
      examples(
        'halcyon client registration-token --days 30',
        'halcyon client registration-token --revoke 5f0c1d9e8b7a6f5e',
      ),
    )
    .action(async (options: { days: string; revoke?: string }) =>
      options.revoke === undefined ? invite(terminal, daysOf(options.days)) : revoke(terminal, options.revoke),
    );
};
