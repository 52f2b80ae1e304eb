/** Which modules a test imports: some tests need only those, so that many of them may share a process. */
import { join } from 'node:path';
import { readTree } from '../architecture/tree.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDERS = ['src', 'packages', 'test'];
/** All use one database; programs that a test starts load modules by themselves. */
const SHARED_STATE = new Set(['pg', 'node:child_process', 'node:worker_threads']);

type Imports = ReadonlyMap<string, readonly string[]>;

let read: Promise<Imports> | undefined;

/** Returns the direct imports of each file: paths, and the names of packages. They are read once, which takes two seconds. */
export function readImports(): Promise<Imports> {
  read ??= Promise.all(FOLDERS.map((folder) => readTree(ROOT, folder))).then(
    (trees) =>
      new Map(
        trees
          .flat()
          .map(({ path, imports }) => [
            path,
            imports.filter(({ isTypeOnly }) => !isTypeOnly).map(({ specifier, target }) => target ?? specifier),
          ]),
      ),
  );
  return read;
}

/** Returns a predicate of test files: whether no direct or indirect import of the file is or starts a process. */
export async function unitFiles(): Promise<(testFile: string) => boolean> {
  const imports = await readImports();
  return (testFile) => {
    const reached = new Set([testFile]);
    for (const path of reached) for (const next of imports.get(path) ?? []) reached.add(next);
    return imports.has(testFile) && reached.isDisjointFrom(SHARED_STATE);
  };
}
