/** `halcyon publish`: the events of a file, over the API, so that a running Halcyon delivers them at once. */
import { Command } from 'commander';
import { systemClock } from '#core/clock.ts';
import { readConfig } from '#config/config.ts';
import { UsageError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { resolveTarget, type TargetOptions } from './target.ts';
import { publishInput } from './report.ts';

type Options = TargetOptions & { keepGoing?: true; retryFor: string; json?: true };

const RETRY_SECONDS_MAX = 86_400;

const secondsOf = (text: string): number => {
  const seconds = Number(text);
  if (Number.isSafeInteger(seconds) && seconds >= 0 && seconds <= RETRY_SECONDS_MAX) return seconds;
  throw new UsageError(`--retry-for must be a whole number of seconds from 0 to ${RETRY_SECONDS_MAX}`);
};

const HELP = `
Each line is one event: {"event":"transaction/created","resource":{"id":1001,"total":24.5}}
It may name a key of its own, "idempotency_key"; others get one made of what they say. For 24 hours the same file again
publishes nothing twice: whatever stopped a run, run the same command again.

Without --url and --client-id they are those of the demo (HALCYON_DATA/demo.json), or HALCYON_URL, HALCYON_CLIENT_ID and
HALCYON_CLIENT_SECRET. The client has to be a trusted one: halcyon client create --name Platform --trusted

Ends with 0 when every line is published, 1 when it stopped before the end, 2 when lines were refused and it kept going,
3 when the server could not be reached for --retry-for seconds, 130 when it was told to stop.

Examples:
  halcyon publish orders.jsonl
  halcyon publish orders.jsonl --store 4711 --url https://api.example.com --client-secret-file platform.json
  export-orders | halcyon publish - --store 4711 --keep-going --json`;

export const createPublishCommand = (terminal: Terminal): Command =>
  new Command('publish')
    .description('publish the events of a file, one in each line as JSON')
    .argument('<file>', 'the file, or - for what is piped in')
    .option('--store <id>', 'whose events they are')
    .option('--url <address>', 'of the API')
    .option('--client-id <id>', 'the client of the platform')
    .option('--client-secret-file <file>', 'holds its secret, or what client create --json printed')
    .option('--keep-going', 'go on without the lines that are refused')
    .option('--retry-for <seconds>', 'how long a server that is away is waited for', '60')
    .option('--json', 'print what became of it as one JSON object')
    .addHelpText('after', HELP)
    .action(async (file: string, options: Options) => {
      const config = readConfig(terminal.env, terminal.cwd);
      const retryForSeconds = secondsOf(options.retryFor);
      const place = await resolveTarget(options, terminal, config);
      await publishInput(file, {
        terminal,
        place,
        retryForSeconds,
        keepsGoing: options.keepGoing === true,
        isJson: options.json === true,
        clock: systemClock,
        random: Math.random,
      });
    });
