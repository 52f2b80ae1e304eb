/**
 * `halcyon publish` publishes the events of a file over the API, so that a running Halcyon delivers them at once. `halcyon load` stores the
 * versions of a file without events.
 */
import { systemClock } from '#core/clock.ts';
import { readConfig } from '#config/config.ts';
import { CliCommand } from '../command.ts';
import type { Terminal } from '../terminal.ts';
import { resolveTarget, type TargetOptions, type Task } from './publish-requests.ts';
import { publishInput } from './publish-run.ts';

type Options = TargetOptions & { keepGoing?: true; retryFor: number; dryRun?: true };

const RETRY = { min: 0, max: 86_400, unit: ' of seconds' };

const DEFAULTS = `
The defaults of --url and --client-id are HALCYON_URL, HALCYON_CLIENT_ID and HALCYON_CLIENT_SECRET, or those of the demo
(HALCYON_DATA/demo.json). The client must be trusted: halcyon client create --name Platform --trusted

Exit code: 0 if every line is done, 1 if it stopped before the end, 2 if lines were rejected with --keep-going,
3 if the server was unreachable for --retry-for seconds, 130 if it was interrupted.`;

const PUBLISH_HELP = `
Each line is one event: {"event":"transaction/created","resource":{"id":1001,"total":24.5}}
A line may contain its own key, "idempotency_key"; otherwise a key is derived from its content. Within 24 hours the same
file publishes no event twice: after an interruption, run the same command again.
A JSON array is not published: jq -c ".[]" writes its events as lines.
${DEFAULTS}

Examples:
  halcyon publish orders.jsonl
  halcyon publish orders.jsonl --store 4711 --url https://api.example.com --client-secret-file platform.json
  export-orders | halcyon publish - --store 4711 --keep-going --json`;

const LOAD_HELP = `
Each line is one resource: {"type":"transaction","resource":{"id":1001,"total":24.5,"date_modified":"2024-03-01T10:00:00Z"}}
No event is made, and nothing is delivered. A resource replaces a stored one only if its date_modified is later. After an
interruption, run the same command again: it continues at the line where it stopped. --dry-run prints the warnings, such
as of subscriptions without revenue.
${DEFAULTS}

Examples:
  halcyon load history.jsonl --dry-run
  halcyon load history.jsonl --store 4711 --url https://api.example.com --client-secret-file platform.json
  export-orders | halcyon load - --store 4711 --keep-going`;

type LineCommand = { name: Task['command']; description: string; help: string };

/** Returns a command that sends the lines of a file as a task says. */
function createLineCommand(terminal: Terminal, { name, description, help }: LineCommand): CliCommand {
  return new CliCommand(name)
    .description(description)
    .argument('<file>', 'the file, or - for stdin')
    .id('--store <id>', 'the store of the lines')
    .option('--url <address>', 'of the API')
    .option('--client-id <id>', 'the client of the platform')
    .option('--client-secret-file <file>', 'a file with its secret, or with the output of client create --json')
    .option('--keep-going', 'skip lines that are rejected')
    .number('--retry-for <seconds>', 'how long to retry while the server is unreachable', RETRY, 60)
    .addHelpText('after', help)
    .action(async (file: string, options: Options) => {
      const config = readConfig(terminal.env, terminal.cwd);
      const target = await resolveTarget(options, terminal, config);
      await publishInput(file, {
        task: name === 'publish' ? { command: name } : { command: name, isDryRun: options.dryRun === true },
        terminal,
        target,
        retryForSeconds: options.retryFor,
        keepsGoing: options.keepGoing === true,
        clock: systemClock,
        random: Math.random,
      });
    });
}

export function createLineCommands(terminal: Terminal): CliCommand[] {
  const publish = 'publish the events of a file, one JSON object per line';
  const load = 'load the history of a store from a file, one JSON object per line, without events';
  return [
    createLineCommand(terminal, { name: 'publish', description: publish, help: PUBLISH_HELP }),
    createLineCommand(terminal, { name: 'load', description: load, help: LOAD_HELP }).option(
      '--dry-run',
      'check the lines, and write nothing',
    ),
  ];
}
