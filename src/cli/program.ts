/** The commands there are. Each is a file; this one only names them. */
import { Command } from 'commander';
import { VERSION } from '#version.ts';
import { createClientCommand } from './client.ts';
import { migrateOnly } from './migrate.ts';
import { createPublishCommand } from './publish/command.ts';
import { serve } from './serve.ts';
import { createStoreCommand } from './store.ts';
import type { Terminal } from './terminal.ts';
import { createUserCommand } from './user.ts';

export const createProgram = (terminal: Terminal): Command => {
  const program = new Command('halcyon')
    .description('The partner platform of a store-commerce service: hypermedia API, OAuth 2.0 server, webhook engine.')
    .version(VERSION);
  program
    .command('serve', { isDefault: true })
    .description('serve the API, the pages and the deliveries')
    .option('--no-deliver', 'leave the deliveries to other processes')
    .action((options: { deliver: boolean }) => serve(terminal, options.deliver ? ['serve', 'deliver'] : ['serve']));
  program
    .command('deliver')
    .description('deliver webhooks, and serve nothing')
    .action(() => serve(terminal, ['deliver']));
  program
    .command('migrate')
    .description('bring the database to the schema of this version')
    .action(() => migrateOnly(terminal));
  program.addCommand(createUserCommand(terminal));
  program.addCommand(createStoreCommand(terminal));
  program.addCommand(createClientCommand(terminal));
  program.addCommand(createPublishCommand(terminal));
  return program;
};
