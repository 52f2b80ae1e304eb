/** Assembles the program from its commands. */
import { Command } from 'commander';
import type { Role } from '#server/app.ts';
import { VERSION } from '#server/version.ts';
import { createClientCommand } from './client.ts';
import { examples, exitCodes, addCommonFeatures, printResult, withContext } from './command.ts';
import { exitCodeOf, explain, UsageError } from './explain.ts';
import { createListenCommand } from './listen/listen-command.ts';
import { createLoginCommands } from './login.ts';
import { createBackupCommand } from './backup/backup-command.ts';
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
import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import { openInstallation } from './installation.ts';
import { readersOf, readTarget } from '#webhooks/readers.ts';

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

/** `halcyon migrate`: applies the migrations as a separate deployment step; every start applies them as well. */
async function migrateOnly(terminal: Terminal): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const onMigration = (name: string, database?: string): void =>
    terminal.warn(database === undefined ? `Applying ${name}` : `Applying ${name} to ${database}`);
  const installation = await openInstallation(config, createLog(config.logLevel), {
    usesRunningServer: true,
    requiresAll: true,
    onMigration,
  });
  await installation.close();
  const { applied, migrated } = installation;
  if (terminal.isJson === true) printResult(terminal, { applied, ...(migrated.length > 0 && { databases: migrated }) });
  else if (migrated.length === 0) terminal.print('The database has the schema of this version.');
  else terminal.print(`The ${migrated.length + 1} databases have the schema of this version.`);
}

/** `halcyon events uses`: the webhooks that a change of a type of EVENTS_FILE, a mapping or a relation would affect. */
const uses = (terminal: Terminal, text: string): Promise<void> =>
  withContext(terminal, async ({ sql, databases }) => {
    const target = readTarget(text);
    if (typeof target === 'string') throw new UsageError(target);
    const found: { webhook_id: number; store_id: number; name: string; is_active: boolean; in: string[] }[] = [];
    for await (const { id, storeId, name, isActive, places } of readersOf(
      [sql, ...databases.map((one) => one.sql)],
      target,
    ))
      found.push({ webhook_id: id, store_id: storeId, name, is_active: isActive, in: places });
    if (terminal.isJson === true) return terminal.print(JSON.stringify({ webhooks: found }));
    for (const { webhook_id: id, store_id: storeId, name: called, is_active: isActive, in: places } of found)
      terminal.print(
        `webhook ${id} of store ${storeId}: ${places.join(', ')}  ${called}${isActive ? '' : ' (disabled)'}`,
      );
    terminal.print(`${found.length} ${found.length === 1 ? 'webhook uses' : 'webhooks use'} ${text}`);
    return undefined;
  });

function createEventsCommand(terminal: Terminal): Command {
  const command = new Command('events').description('the types of events, and who reads them');
  command
    .command('uses')
    .description(
      'list the webhooks whose events, query or filter name this: before you change EVENTS_FILE or MAPPING_FILE',
    )
    .argument('<target>', 'a type, or <type>/<name> of an event, a member or an embedded relation')
    .addHelpText('after', examples('halcyon events uses transaction', 'halcyon events uses transaction/items'))
    .action((target: string) => uses(terminal, target));
  return command;
}
