/** Assembles the program from its commands. */
import { Command } from 'commander';
import type { Role } from '#server/app.ts';
import { VERSION } from '#server/version.ts';
import { createClientCommand } from './client.ts';
import { examples, exitCodes, addCommonFeatures } from './command.ts';
import { exitCodeOf, explain } from './explain.ts';
import { createListenCommand } from './listen/listen-command.ts';
import { createLoginCommands } from './login.ts';
import { migrateOnly } from './migrate-command.ts';
import { createBackupCommand } from './backup/backup-command.ts';
import { createEventsCommand } from './events-command.ts';
import { createDoctorCommand } from './doctor/doctor-command.ts';
import { createLoadCommand, createPublishCommand } from './publish/publish-command.ts';
import { createRelayCommand } from './relay/relay-command.ts';
import { createRekeyCommand } from './rekey.ts';
import { createShardsCommand } from './shards/shards-command.ts';
import { createStoreCommand } from './store-command.ts';
import type { Terminal } from './terminal.ts';
import { createTriggerCommand } from './trigger.ts';
import { createUserCommand } from './user.ts';
import { createVerifyCommand } from './verify.ts';

/** Imports on use, like the checks of `doctor` and the changelog: every other command starts in 0.28 s instead of 0.41 s. */
const serve = async (terminal: Terminal, roles: readonly Role[]): Promise<void> =>
  (await import('./serve.ts')).serve(terminal, roles);

function addServing(program: Command, terminal: Terminal): void {
  program
    .command('serve')
    .description('serve the API, the pages and the deliveries; without DATABASE_URL on an embedded PostgreSQL')
    .option('--no-deliver', 'leave the deliveries to other processes')
    .addHelpText('after', examples('halcyon serve', 'PORT=8090 halcyon serve --no-deliver'))
    .action((options: { deliver: boolean }) => serve(terminal, options.deliver ? ['serve', 'deliver'] : ['serve']));
  program
    .command('deliver')
    .description('deliver webhooks only; any number of processes, with DATABASE_URL')
    .addHelpText('after', examples('halcyon deliver'))
    .action(() => serve(terminal, ['deliver']));
  program
    .command('migrate')
    .description('migrate the database to the schema of this version')
    .addHelpText('after', examples('halcyon migrate'))
    .action(() => migrateOnly(terminal));
}

const HELP = `
Every command has --help with an example. Settings are read from the environment: docs/operating.md.
In a checkout halcyon is: npm run -s halcyon --`;

/** Returns the program, its commands grouped by user. */
export function createProgram(terminal: Terminal): Command {
  const program = new Command('halcyon')
    .description('The partner platform of a store-commerce service: hypermedia API, OAuth 2.0 server, webhook engine.')
    .version(VERSION)
    .addHelpText('after', HELP)
    .addHelpText('after', exitCodes());
  program.commandsGroup('For operators:');
  addServing(program, terminal);
  program.addCommand(createDoctorCommand(terminal));
  program.addCommand(createBackupCommand(terminal));
  program.addCommand(createUserCommand(terminal));
  program.addCommand(createStoreCommand(terminal));
  program.addCommand(createClientCommand(terminal));
  program.addCommand(createEventsCommand(terminal));
  program.addCommand(createRekeyCommand(terminal));
  program.addCommand(createShardsCommand(terminal));
  program.commandsGroup('For the publishing platform:');
  program.addCommand(createPublishCommand(terminal));
  program.addCommand(createLoadCommand(terminal));
  program.addCommand(createRelayCommand(terminal));
  program.commandsGroup('For app developers:');
  for (const command of createLoginCommands(terminal)) program.addCommand(command);
  program.addCommand(createListenCommand(terminal));
  program.addCommand(createTriggerCommand(terminal));
  program.addCommand(createVerifyCommand(terminal));
  program.commandsGroup('Help:').helpCommand('help [command]', 'show the help of a command');
  return addCommonFeatures(program, terminal);
}

/** Prints the message of a failed command. */
export function printError({ warn, isJson }: Terminal, error: unknown): void {
  const text = explain(error, isJson);
  if (text !== undefined) warn(text);
}

/** Runs the command of the arguments and returns its exit code. */
export async function runProgram(terminal: Terminal, args: readonly string[]): Promise<number> {
  try {
    await createProgram(terminal).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    printError(terminal, error);
    return exitCodeOf(error);
  }
}
