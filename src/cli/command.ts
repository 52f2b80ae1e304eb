/** Common features of all commands: examples, `--json`, usage errors. Every start imports it. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Command, type CommanderError } from 'commander';
import { parseId } from '#core/ids.ts';
import { EXIT_CODES, UsageError, UserError } from './explain.ts';
import type { Terminal } from './terminal.ts';

/** A command of this program, also each of its subcommands. */
export class CliCommand extends Command {
  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Adds examples to the end of the help; a test runs each of them. */
  examples(...lines: readonly string[]): this {
    const title = lines.length === 1 ? 'Example:' : 'Examples:';
    return this.addHelpText('after', ['', title, ...lines.map((line) => `  ${line}`)].join('\n'));
  }

  /** Adds an option with a whole number. */
  number(flags: string, description: string, range: NumberRange, initial?: number): this {
    return this.option(flags, description, (text) => wholeNumber(nameIn(flags), text, range), initial);
  }

  /** Adds an option with an id. */
  id(flags: string, description: string): this {
    return this.option(flags, description, readId(nameIn(flags)));
  }
}

/** Returns the name of an option without that of its value. */
const nameIn = (flags: string): string => flags.replace(/ .*/, '');

/** Prints the result of a command: as JSON in one line with `--json`; otherwise as lines, by default those of indented JSON. */
export function printResult(
  { print, isJson }: Terminal,
  value: object,
  lines: readonly string[] = [JSON.stringify(value, null, 2)],
): void {
  for (const line of isJson === true ? [JSON.stringify(value)] : lines) print(line);
}

/** Reads the file of an option; throws a `UserError` that names the option. */
export async function readFileOf(option: string, path: string, { cwd }: Pick<Terminal, 'cwd'>): Promise<Buffer> {
  try {
    return await readFile(resolve(cwd, path));
  } catch (error) {
    throw new UserError(`${option}: ${(error as Error).message}`);
  }
}

type NumberRange = { min: number; max: number; unit?: string };

/** Returns the number of an option; throws a `UsageError` that names the option and its range. */
function wholeNumber(option: string, text: string, { min, max, unit = '' }: NumberRange): number {
  const number = Number(text);
  // An empty text would be the number 0.
  if (text.trim() !== '' && Number.isSafeInteger(number) && number >= min && number <= max) return number;
  throw new UsageError(`${option} must be a whole number${unit} from ${min} to ${max}`);
}

/** Returns the function that reads an id; it throws a `UsageError` with the name of the argument or option. */
export function readId(name: string): (text: string) => number {
  return (text) => {
    const id = parseId(text);
    if (id !== undefined) return id;
    throw new UsageError(`${name} must be an id, a positive whole number`);
  };
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

/** Adds the common features to the command and its subcommands. */
export function addCommonFeatures(command: Command, terminal: Terminal): Command {
  command.exitOverride(throwUsageError(command)).configureOutput({
    writeOut: (text) => terminal.print(withoutLineEnd(text)),
    writeErr: (text) => terminal.warn(withoutLineEnd(text)),
    outputError: () => {},
  });
  const isLeaf = command.commands.length === 0;
  if (isLeaf && !LONG_RUNNING.has(command.name()))
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
