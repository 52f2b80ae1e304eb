/** All mutations of this folder, and which of them have changed since the recorded run of the whole set. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mutate, readPatch, type Mutation } from './patch.ts';

const ROOT = join(import.meta.dirname, '../..');
const RECORD = join(import.meta.dirname, 'caught.json');

/** `hash`: of the patch, the file that it changes and the file of its test. `fault`: why it cannot be run. */
export type Entry = { name: string; hash: string; mutation?: Mutation; fault?: string };

/** The commit at which all mutations were caught, and the hash of each at that time. */
type CaughtRecord = { commit: string; harness: string; mutations: Record<string, string> };

function hashOf(...parts: readonly (string | Buffer)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${part.length}\0`).update(part);
  return hash.digest('hex').slice(0, 16);
}

function namesHere(extension: string): string[] {
  return readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(extension))
    .toSorted();
}

function contentOf(path: string): string {
  return existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), 'utf8') : '';
}

function entryOf(name: string): Entry {
  const text = readFileSync(join(import.meta.dirname, name), 'utf8');
  try {
    const mutation = readPatch(text);
    const source = contentOf(mutation.target);
    const hash = hashOf(text, source, contentOf(mutation.testFile));
    mutate(source, mutation);
    return { name, hash, mutation };
  } catch (error) {
    return { name, hash: hashOf(text), fault: (error as Error).message };
  }
}

export function readCatalogue(): Entry[] {
  return namesHere('.patch').map(entryOf);
}

function hashOfHarness(): string {
  return hashOf(...namesHere('.ts').map((name) => readFileSync(join(import.meta.dirname, name))));
}

/** Returns the mutations that changed since the recorded run: all where the harness changed, or where nothing is recorded. */
export function changedSince(entries: readonly Entry[]): Entry[] {
  const text = existsSync(RECORD) ? readFileSync(RECORD, 'utf8') : '{"mutations":{}}';
  const { harness, mutations } = JSON.parse(text) as CaughtRecord;
  return entries.filter(({ name, hash }) => harness !== hashOfHarness() || mutations[name] !== hash);
}

/** Records that all of these were caught with the tree as it is now. */
export function recordCaught(entries: readonly Entry[]): void {
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
  const mutations = Object.fromEntries(entries.map(({ name, hash }) => [name, hash]));
  const record: CaughtRecord = { commit, harness: hashOfHarness(), mutations };
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
}
