/** Assembles the program from its commands. */
import type { Command } from 'commander';
import { VERSION } from '#server/version.ts';
import { exitCodes, addCommonFeatures, CliCommand } from './command.ts';
import { exitCodeOf, explain } from './explain.ts';
import type { Terminal } from './terminal.ts';

/** The names of a module's commands, and what makes them. */
type Commands = readonly [names: readonly string[], load: (terminal: Terminal) => Promise<readonly Command[]>];

/** Only the command that is named is imported: all together take half a second and 50 MiB, also of each process of `serve`. */
const GROUPS: readonly (readonly [title: string, commands: readonly Commands[]])[] = [
  [
    'For operators:',
    [
      [['serve', 'deliver'], async (terminal) => (await import('./serve.ts')).createServingCommands(terminal)],
      [['migrate'], async (terminal) => [(await import('./migrate-command.ts')).createMigrateCommand(terminal)]],
      [['doctor'], async (terminal) => [(await import('./doctor/doctor-command.ts')).createDoctorCommand(terminal)]],
      [['backup'], async (terminal) => [(await import('./backup/backup-command.ts')).createBackupCommand(terminal)]],
      [['user'], async (terminal) => [(await import('./user.ts')).createUserCommand(terminal)]],
      [['store'], async (terminal) => [(await import('./store-command.ts')).createStoreCommand(terminal)]],
      [['client'], async (terminal) => [(await import('./client.ts')).createClientCommand(terminal)]],
      [['events'], async (terminal) => [(await import('./events-command.ts')).createEventsCommand(terminal)]],
      [['rekey'], async (terminal) => [(await import('./rekey.ts')).createRekeyCommand(terminal)]],
      [['shards'], async (terminal) => [(await import('./shards/shards-command.ts')).createShardsCommand(terminal)]],
    ],
  ],
  [
    'For the publishing platform:',
    [
      [
        ['publish', 'load'],
        async (terminal) => (await import('./publish/publish-command.ts')).createLineCommands(terminal),
      ],
      [['relay'], async (terminal) => [(await import('./relay/relay-command.ts')).createRelayCommand(terminal)]],
    ],
  ],
  [
    'For app developers:',
    [
      [['login', 'whoami', 'logout'], async (terminal) => (await import('./login.ts')).createLoginCommands(terminal)],
      [['listen'], async (terminal) => [(await import('./listen/listen-command.ts')).createListenCommand(terminal)]],
      [['trigger'], async (terminal) => [(await import('./trigger.ts')).createTriggerCommand(terminal)]],
      [['verify'], async (terminal) => [(await import('./verify.ts')).createVerifyCommand(terminal)]],
    ],
  ],
];

const HELP = `
Every command has --help with an example. Settings are read from the environment: docs/operating.md.
In a checkout halcyon is: npm run -s halcyon --`;

/** Returns the program with the named command, or with all of them, grouped by user, if there is no such command. */
export async function createProgram(terminal: Terminal, name?: string): Promise<Command> {
  const program = new CliCommand('halcyon')
    .description('The partner platform of a store-commerce service: hypermedia API, OAuth 2.0 server, webhook engine.')
    .version(VERSION)
    .addHelpText('after', HELP)
    .addHelpText('after', exitCodes());
  const isNamed = ([names]: Commands): boolean => name !== undefined && names.includes(name);
  const isKnown = GROUPS.some(([, commands]) => commands.some(isNamed));
  for (const [title, commands] of GROUPS) {
    program.commandsGroup(title);
    for (const [, load] of isKnown ? commands.filter(isNamed) : commands)
      for (const command of await load(terminal)) program.addCommand(command);
  }
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
    const program = await createProgram(terminal, args[0]);
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    printError(terminal, error);
    return exitCodeOf(error);
  }
}
