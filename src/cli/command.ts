/** Common features of all commands: examples, `--json`, usage errors, and the installation that they open. */
import type { Command, CommanderError } from 'commander';
import { EXIT_CODES, UsageError } from './explain.ts';
import type { Terminal } from './terminal.ts';
import { declareFile } from '#catalog/own/events-file.ts';
import { declareMappings } from '#catalog/own/mapping-file.ts';
import { readConfig, type Config } from '#config/config.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import type { openInternalEvents } from '#server/publishing.ts';
import { readMap } from '#shards/map-sql.ts';
import { areChangesApplied, enqueue } from '#shards/outbox.ts';
import { enqueueForAll } from '#shards/outbox-sql.ts';
import { openInstallation, type Installation } from './installation.ts';
import { createLog, type Log } from '#core/log.ts';

/** Returns the examples at the end of a command's help; a test runs each of them. */
export function examples(...lines: readonly string[]): string {
  return ['', lines.length === 1 ? 'Example:' : 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n');
}

/** Prints a JSON value: indented, or in one line with `--json`. */
export function printResult({ print, isJson }: Terminal, value: object): void {
  return print(isJson === true ? JSON.stringify(value) : JSON.stringify(value, null, 2));
}

/** Returns the number of an option; throws a `UsageError` that names the option and its range. */
export function wholeNumber(
  option: string,
  text: string,
  { min, max, unit = '' }: { min: number; max: number; unit?: string },
): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= min && number <= max) return number;
  throw new UsageError(`${option} must be a whole number${unit} from ${min} to ${max}`);
}

const nameOf = (command: Command): string =>
  command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;

/** Adds the command's help to a usage error. */
const throwUsageError =
  (command: Command) =>
  (error: CommanderError): never => {
    if (error.exitCode === 0) throw error;
    const message = error.message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
    // The help has been printed already, because no command was named.
    error.message =
      error.code === 'commander.help' ? 'Name one of these commands' : `${message}: see ${nameOf(command)} --help`;
    throw error;
  };

/** Commands that run until a signal and print no result. */
const LONG_RUNNING: ReadonlySet<string> = new Set(['serve', 'deliver']);

const withoutLineEnd = (text: string): string => text.replace(/\n$/, '');

/**
 * Adds the common features to the command and its subcommands. A command with its own `--json` output has defined the option
 * already.
 */
export function addCommonFeatures(command: Command, terminal: Terminal): Command {
  command.exitOverride(throwUsageError(command)).configureOutput({
    writeOut: (text) => terminal.print(withoutLineEnd(text)),
    writeErr: (text) => terminal.warn(withoutLineEnd(text)),
    outputError: () => {},
  });
  const isLeaf = command.commands.length === 0;
  if (isLeaf && !LONG_RUNNING.has(command.name()) && !command.options.some(({ long }) => long === '--json'))
    command.option('--json', 'one line of JSON on stdout; an error as JSON on stderr');
  for (const each of command.commands) addCommonFeatures(each.helpCommand(false), terminal);
  return command;
}

/** Returns the table at the end of the program's help. */
export function exitCodes(): string {
  return ['', 'Exit codes:', ...EXIT_CODES.map(([code, meaning]) => `  ${String(code).padEnd(5)}${meaning}`)].join(
    '\n',
  );
}

export type CommandContext = Installation &
  ReturnType<typeof openInternalEvents> & {
    config: Config;
    /** The time of the database when the command began. */
    now: Date;
  };

/** Runs a short-lived command on the database, also while Halcyon is running. */
export async function withContext(terminal: Terminal, run: (context: CommandContext) => Promise<void>): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  declareFile(config.events.file);
  declareMappings(config.events.mapping);
  const { openInternalEvents, withOutbox } = await import('#server/publishing.ts');
  const installation = await openInstallation(config, createCommandLog(terminal, config.logLevel), {
    usesRunningServer: true,
  });
  try {
    const map = await readMap(installation.sql);
    // A process of `serve` or `deliver` applies the changes to other databases.
    const databases = { map, each: () => [installation.sql] };
    const elsewhere = { databases, outbox: { enqueue, enqueueForAll } };
    const now = await readDatabaseTime(installation.sql);
    await run({ ...installation, config, now, ...withOutbox(openInternalEvents(config), elsewhere) });
    if (map.version > 0 && !(await areChangesApplied(installation.sql)))
      terminal.warn('halcyon: other databases get the change later, from a process of halcyon serve');
  } finally {
    await installation.close();
  }
}

type Entry = { msg: string; database?: string | number; reason?: string; err?: { message: string } };

/** Returns the log of a command, for the person at the terminal: entries of the level, or a more serious one, as lines without stacks. */
export function createCommandLog(terminal: Pick<Terminal, 'warn'>, level: string): Log {
  const write = (line: string): void => {
    const { msg, database, reason, err } = JSON.parse(line) as Entry;
    const details = [database, err?.message ?? reason].filter((detail) => detail !== undefined);
    terminal.warn(`halcyon: ${[msg, ...details].join(': ')}`);
  };
  return createLog(level, { write });
}
