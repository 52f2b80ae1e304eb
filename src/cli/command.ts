/** What all commands have in common: examples, `--json`, and what is said to whoever mistypes one. */
import type { Command, CommanderError } from 'commander';
import { EXIT_CODES } from './explain.ts';
import type { Terminal } from './terminal.ts';

/** Lines at the end of the help of a command; a test runs each of them. */
export const examples = (...lines: readonly string[]): string =>
  ['', lines.length === 1 ? 'Example:' : 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n');

/** One JSON value: in lines for a person, in one line for a program that said `--json`. */
export const answer = ({ print, isJson }: Terminal, value: object): void =>
  print(isJson === true ? JSON.stringify(value) : JSON.stringify(value, null, 2));

const nameOf = (command: Command): string =>
  command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;

const refuse =
  (command: Command) =>
  (error: CommanderError): never => {
    if (error.exitCode === 0) throw error;
    const told = error.message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' ');
    // Its help was printed already, because no command was named.
    error.message =
      error.code === 'commander.help' ? 'Name one of these commands' : `${told}: see ${nameOf(command)} --help`;
    throw error;
  };

/** What runs until it is told to stop says so in its log, and has no result to print. */
const RUNS_ON: ReadonlySet<string> = new Set(['serve', 'deliver']);

/**
 * Gives every command that stands in the program by now what all have: nobody has to remember it. A command that prints
 * something else with `--json` than without has the option already.
 */
export const finish = (command: Command): Command => {
  command.exitOverride(refuse(command)).configureOutput({ outputError: () => {} });
  const isLeaf = command.commands.length === 0;
  if (isLeaf && !RUNS_ON.has(command.name()) && !command.options.some(({ long }) => long === '--json'))
    command.option('--json', 'one line of JSON on stdout; an error as JSON on stderr');
  for (const each of command.commands) finish(each.helpCommand(false));
  return command;
};

/** The table at the end of the help of the program. */
export const exitCodes = (): string =>
  ['', 'Exit codes:', ...EXIT_CODES.map(([code, meaning]) => `  ${String(code).padEnd(5)}${meaning}`)].join('\n');
