/** Values that documents show, as Markdown: of this server on its pages, of the default settings in docs/ (scripts/document-values.ts). */
import { ERROR_MEANINGS } from './reference-words.ts';
import type { Setting } from './setting.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Returns a duration in the largest unit that fits: `5 s`, `10 min`, `75.6 h`. */
function durationOf(seconds: number): string {
  if (seconds < MINUTE) return `${seconds} s`;
  const [unit, name] = seconds < HOUR ? [MINUTE, 'min'] : [HOUR, 'h'];
  return `${Number((seconds / unit).toFixed(1))} ${name}`;
}

const code = (text: string): string => `\`${text}\``;
const cellOf = (text: string): string => text.replaceAll(/[|<*[]/g, String.raw`\$&`);

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  return `${line(heads)}|${'---|'.repeat(heads.length)}\n${rows.map(line).join('')}`;
}

/** By the name of their mark. */
export const VALUES: Readonly<Record<string, (setting: Setting) => string>> = {
  timeout: ({ deliveries }) => durationOf(deliveries.timeoutSeconds),
  retention: ({ deliveries }) => `${deliveries.retentionDays} days`,
  retries: ({ deliveries }) =>
    table(
      ['`retry_profile`', 'attempts', 'waits between attempts', 'disabled after'],
      Object.entries(deliveries.retrySeconds).map(([profile, waits]) => [
        code(profile),
        String(waits.length + 1),
        waits.map(durationOf).join(', '),
        `${deliveries.disableAfterFailures} consecutive failures over at least ${durationOf(deliveries.disableAfterSeconds[profile] ?? 0)}`,
      ]),
    ),
  headers: ({ sentRequests }) =>
    table(
      ['header', 'meaning'],
      sentRequests.headers.map(({ name, about }) => [code(name), cellOf(about)]),
    ),
  install: ({ installCommands }) => {
    const commands = [installCommands.npm, installCommands.python].filter((command) => command !== undefined);
    const block = commands.length > 0 ? `\`\`\`sh\n${commands.join('\n')}\n\`\`\`\n` : '';
    const missing = commands.length === 0 ? 'packages' : 'other package';
    return commands.length === 2
      ? block
      : `${block}\nThe operator builds the ${missing} with \`npm run packages\`, and restarts the server: then the commands are here.\n`;
  },
  scopes: ({ scopes }) =>
    table(
      ['scope', 'purpose'],
      Object.entries(scopes).map(([scope, about]) => [code(scope), cellOf(about)]),
    ),
  statuses: () => table(['status', 'meaning'], Object.entries(ERROR_MEANINGS)),
  rate: ({ rate }) =>
    rate.requestsPerSecond > 0
      ? `${rate.requestsPerSecond} requests a second and a burst of ${rate.burstRequests}`
      : 'no limit',
};
