/** `halcyon user create`. */
import { randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { createPasswords } from '#accounts/passwords.ts';
import { createUser } from '#accounts/users.ts';
import { asGuest } from './guest.ts';
import type { Terminal } from './terminal.ts';

export const createUserCommand = (terminal: Terminal): Command => {
  const command = new Command('user').description('people who sign in');
  command
    .command('create')
    .description('create a user and print the password that was generated')
    .argument('<email>', 'the address they sign in with')
    .addHelpText('after', '\nExample:\n  halcyon user create ada@example.com')
    .action((email: string) =>
      asGuest(terminal, async ({ sql }) => {
        const password = randomBytes(12).toString('base64url');
        const { id } = await createUser(sql, createPasswords({ hashesAtOnce: 1 }), {
          email,
          password,
          now: new Date(),
        });
        terminal.print(JSON.stringify({ id, email, password }, null, 2));
      }),
    );
  return command;
};
