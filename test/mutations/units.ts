/** Finds tests that need only the modules they import, so that many of them may share a process. */
import { join } from 'node:path';
import { readTree } from '../architecture/tree.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDERS = ['src', 'packages', 'test'];
/** All use one database; programs that a test starts load modules by themselves. */
const SHARED_STATE = new Set(['pg', 'node:child_process', 'node:worker_threads']);

/** Returns a predicate of test files: whether no direct or indirect import of the file is or starts a process. */
export async function unitFiles(): Promise<(testFile: string) => boolean> {
  const trees = await Promise.all(FOLDERS.map((folder) => readTree(ROOT, folder)));
  const imports = new Map(
    trees
      .flat()
      .map(({ path, imports: all }) => [
        path,
        all.filter(({ isTypeOnly }) => !isTypeOnly).map(({ specifier, target }) => target ?? specifier),
      ]),
  );
  return (testFile) => {
    const reached = new Set([testFile]);
    for (const path of reached) for (const next of imports.get(path) ?? []) reached.add(next);
    return imports.has(testFile) && reached.isDisjointFrom(SHARED_STATE);
  };
}
