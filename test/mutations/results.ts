/** The result of each mutation, kept in a file, so that a stopped run continues and tries changed mutations again. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Entry } from './catalogue.ts';
import type { Try } from './prove.ts';

const ROOT = join(import.meta.dirname, '../..');
const FILE = join(ROOT, 'node_modules/.cache/halcyon/mutations.jsonl');

/** `flickers`: it was caught, or its test passed without it, at the second try only. */
export type Result = { name: string; verdict: 'caught' | 'flickers' | 'missed'; tries: readonly Try[] };

const secondsOf = ({ tries }: Result): string => tries.map(({ seconds }) => `${seconds.toFixed(1)} s`).join(' and ');
const faultOf = ({ tries }: Result): string => tries.find(({ fault }) => fault !== undefined)?.fault ?? '';

const lineOf = (result: Result): string =>
  `${result.verdict.padEnd(8)} ${result.name} (${secondsOf(result)})${result.verdict === 'caught' ? '' : `: ${faultOf(result)}`}`;

/** With the hash of the mutation as it was run. */
type Line = Result & { hash: string };

/** Results count for unchanged mutations; `isFresh`: for none. */
export function openResults(entries: readonly Entry[], isFresh: boolean) {
  mkdirSync(dirname(FILE), { recursive: true });
  if (isFresh) rmSync(FILE, { force: true });
  const hashes = new Map(entries.map(({ name, hash }) => [name, hash]));
  const lines = existsSync(FILE) ? readFileSync(FILE, 'utf8').split('\n').filter(Boolean) : [];
  const known = lines.map((line) => JSON.parse(line) as Line).filter(({ name, hash }) => hashes.get(name) === hash);
  const kept = new Map<string, Result>(known.map(({ hash: _, ...result }) => [result.name, result]));
  return {
    /** Returns whether it was caught before; missed and flickering ones are tried again. */
    has: (name: string): boolean => kept.get(name)?.verdict === 'caught',
    add: (result: Result): void => {
      kept.set(result.name, result);
      appendFileSync(FILE, `${JSON.stringify({ ...result, hash: hashes.get(result.name) })}\n`);
      console.log(lineOf(result));
    },
    of: (names: readonly string[]): Result[] => names.flatMap((name) => kept.get(name) ?? []),
  };
}

const SLOWEST = 5;
const timeOf = ({ tries }: Result): number => tries.reduce((sum, { seconds }) => sum + seconds, 0);

/** Prints the number of mutations per result, the slowest, and each that was not simply caught. */
export function printTable(results: readonly Result[]): void {
  const rows = (['caught', 'flickers', 'missed'] as const).map((verdict) => {
    const those = results.filter((result) => result.verdict === verdict);
    const seconds = those.reduce((sum, result) => sum + timeOf(result), 0);
    return { verdict, mutations: those.length, seconds: Math.round(seconds) };
  });
  console.table(rows);
  const slowest = results.toSorted((a, b) => timeOf(b) - timeOf(a)).slice(0, SLOWEST);
  console.log(`Slowest: ${slowest.map((result) => `${result.name} ${secondsOf(result)}`).join(', ')}`);
  for (const result of results) if (result.verdict !== 'caught') console.log(lineOf(result));
}
