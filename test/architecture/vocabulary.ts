/**
 * Words that had a private meaning in Halcyon, and the field's terms or glossary entries (ARCHITECTURE.md) that replace
 * them. Identifiers count by the words that they consist of; names with an underscore (columns, JSON
 * members, codes) do not count. `node test/architecture/vocabulary.ts src/http docs` lists the uses in these folders.
 */
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The words and their replacements. */
export const REPLACED: Readonly<Record<string, string>> = {
  'whoever whomever nobody somebody': 'the noun itself: the worker, the client, no process',
  'tell tells told telling': 'notify, log, report, return, describe',
  'heard hears news': 'received, notification, change',
  'room rooms house houses': 'module, installation, capacity',
  'door doors': 'raw endpoint',
  'deed deeds': 'action, audit entry',
  'wish wishes weigh weighs weighed': 'input, parse, validate',
  'judge judges judged judgement judging': 'check, validate, decide',
  'proven unproven': 'fast and new endpoints, an authenticated client',
  'suspect suspects suspected': 'quarantine',
  'death deaths': 'crash, crash count',
  'forsaken condemned condemn': 'unattended, pending disable',
  'overlooked overlook': 'reconcile',
  'tally tallies tallied survey': 'hourly statistics, gauge sample',
  'tempo woken parked': 'latency statistics, wake, blocked',
  'mint mints minted hunt': 'allocate, create, search',
  'sabotage sabotages': 'mutation test',
  'ours anew sight': 'owned by this worker, again, access',
};

/** Uses with another meaning. */
const ALLOWED: readonly (readonly [word: RegExp, path: RegExp])[] = [
  // A column of shard_lease and delivery_suspect.
  [/^deaths$/, /-sql\.ts$|\/(?:quarantine|isolation-slot)\.test\.ts$/],
  [/^judge/, /^src\/delivery\/policy\//],
  // The Unix user.
  [/^nobody$/, /^src\/db\/data-folder\.ts$|^test\/faults\/embedded-folders\.test\.ts$/],
  // A note of a sample order, in the golden files.
  [/^door$/, /^test\/setup\/populated-app\.ts$/],
  // The list above.
  [/./, /^test\/architecture\/vocabulary\.ts$/],
];

const BANNED = new Map(
  Object.entries(REPLACED).flatMap(([words, instead]) => words.split(' ').map((word) => [word, instead] as const)),
);

const LIKELY = new RegExp([...BANNED.keys()].join('|'), 'i');

/** In documents, quoted code is not prose. */
const withoutCode = (path: string, line: string): string =>
  path.endsWith('.md') ? line.replaceAll(/`[^`]*`/g, '') : line;

/** Returns each use of a replaced word as `path:line word → instead`. */
export function findReplaced(path: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) =>
    // Few lines have these letters at all.
    (LIKELY.test(line) ? (withoutCode(path, line).match(/[\w$]+/g) ?? []) : [])
      .filter((token) => !token.includes('_'))
      .flatMap((token) =>
        token
          .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
          .toLowerCase()
          .split(' '),
      )
      .filter((word) => BANNED.has(word) && !ALLOWED.some(([allowed, where]) => allowed.test(word) && where.test(path)))
      .map((word) => `${path}:${index + 1} ${word} → ${BANNED.get(word)}`),
  );
}

/** Returns the uses in all files of code and prose below the folders. */
export async function replacedIn(root: string, folders: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for await (const path of glob(
    folders.map((folder) => (/\.\w+$/.test(folder) ? folder : `${folder}/**/*.{ts,md}`)),
    { cwd: root, exclude: ['**/node_modules/**'] },
  ))
    found.push(...findReplaced(path, await readFile(join(root, path), 'utf8')));
  return found.toSorted();
}

if (import.meta.main)
  for (const line of await replacedIn(process.cwd(), process.argv.slice(2))) process.stdout.write(`${line}\n`);
