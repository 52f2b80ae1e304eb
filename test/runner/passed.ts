/**
 * Which tests passed on which source tree. A mutation is caught by a test that passes without it and fails with it; the
 * run of `npm test` is the first half of that proof for all mutations at once.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestsStream } from 'node:test';

const ROOT = join(import.meta.dirname, '../..');
const RECORD = join(ROOT, 'node_modules/.cache/halcyon/passed.json');
const FOLDERS = ['src', 'packages', 'test', 'migrations'];

type Passed = { tree: string; tests: string[] };

/** Returns a hash of the names and contents of every file that a test result depends on, dependencies included. */
export function hashTree(): string {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')));
  for (const folder of FOLDERS) {
    const entries = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'));
    const paths = files.map(({ parentPath, name }) => join(parentPath, name));
    for (const path of paths.toSorted()) {
      const content = readFileSync(path);
      hash.update(`${path.slice(ROOT.length)}\0${content.length}\0`).update(content);
    }
  }
  return hash.digest('hex');
}

function readRecord(): Passed | undefined {
  try {
    return JSON.parse(readFileSync(RECORD, 'utf8')) as Passed;
  } catch {
    return undefined;
  }
}

/** Returns the tests that passed on this very tree, each as `file > name`. */
export function readPassed(): ReadonlySet<string> {
  const record = readRecord();
  return new Set(record?.tree === hashTree() ? record.tests : []);
}

/**
 * Collects the tests that pass. The returned function adds them to the record of the tree as it was when the run began;
 * a record of another tree is replaced. `isGrouped`: each file is a test, and its tests are the subtests of that.
 */
export function recordPassed(events: TestsStream, { isGrouped }: { isGrouped: boolean }): () => void {
  const tree = hashTree();
  const tests: string[] = [];
  let file = '';
  events.on('test:start', ({ name, nesting, entryFile }) => {
    if (nesting === 0) file = isGrouped ? name : String(entryFile).slice(ROOT.length + 1);
  });
  events.on('test:pass', ({ name, nesting, skip, todo }) => {
    if (nesting === Number(isGrouped) && skip === undefined && todo === undefined) tests.push(`${file} > ${name}`);
  });
  return () => {
    const before = readRecord();
    const earlier = before?.tree === tree ? before.tests : [];
    mkdirSync(dirname(RECORD), { recursive: true });
    writeFileSync(RECORD, JSON.stringify({ tree, tests: [...new Set([...earlier, ...tests])].toSorted() }));
  };
}
