/** `halcyon client create`. */
import { Command } from 'commander';
import { createClient } from '#oauth/clients/clients.ts';
import { asGuest } from './guest.ts';
import type { Terminal } from './terminal.ts';

type Options = { name: string; redirectUri: string[]; company?: string; trusted?: true };

export const createClientCommand = (terminal: Terminal): Command => {
  const command = new Command('client').description('OAuth clients: apps, and the platform itself');
  command
    .command('create')
    .description('create a client and print its credentials; the secret is shown this once')
    .requiredOption('--name <name>', 'what store owners see')
    .option(
      '--redirect-uri <uri>',
      'where users are sent back to; may be repeated',
      (uri: string, all: string[]) => [...all, uri],
      [],
    )
    .option('--company <name>')
    .option('--trusted', 'may publish events for any store (client_credentials, scope platform)')
    .addHelpText(
      'after',
      '\nExamples:\n  halcyon client create --name Mailer --redirect-uri https://mailer.example/callback\n  halcyon client create --name Platform --trusted',
    )
    .action(({ name, redirectUri, company, trusted }: Options) =>
      asGuest(terminal, async ({ sql }) => {
        const credentials = await createClient(sql, {
          name,
          redirectUris: redirectUri,
          trusted: trusted === true,
          now: new Date(),
          ...(company === undefined ? {} : { company }),
        });
        terminal.print(JSON.stringify(credentials, null, 2));
      }),
    );
  return command;
};
