/** Common features of all commands: examples, `--json`, usage errors. Every start imports it. */
import type { Command, CommanderError } from 'commander';
import { EXIT_CODES, UsageError } from './explain.ts';
import type { Terminal } from './terminal.ts';

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
