/** Rules about names. */
import type { Fault, File } from './tree.ts';

const VAGUE_NAME = /(?:^|\/)(?:types|utils|helpers|index)\.ts$/;

/** Catch-all file names, and barrels. */
export function vagueNames(files: readonly File[]): Fault[] {
  return files.filter(({ path }) => VAGUE_NAME.test(path)).map(({ path }) => `${path} does not describe its content`);
}

const DEFAULT_EXPORT = /(?<![\w$.])export\s+default\b|\bas\s+default\b/;

/** A default export may get another name in every file that imports it. */
export function defaultExports(files: readonly File[]): Fault[] {
  return files.filter(({ bare }) => DEFAULT_EXPORT.test(bare)).map(({ path }) => `${path} has a default export`);
}

const EXPORTED_ARROW = /^export const (\w+) = (?:async )?(?:<[^=]*>)?(?:\([^()]*\)|\w+)(?:: [^=;]+)? =>/gm;

/** A declaration has its name in stack traces, profiles and searches. */
export function exportedArrows(files: readonly File[]): Fault[] {
  return files.flatMap(({ path, bare }) =>
    [...bare.matchAll(EXPORTED_ARROW)].map(([, name]) => `${path} exports ${name} as an arrow: write export function`),
  );
}

/** A file is found by its name alone: in an editor, in a stack trace, in a conversation. */
export function repeatedNames(files: readonly File[]): Fault[] {
  const code = files.filter(({ path, isTest }) => path.startsWith('src/') && !isTest);
  const byName = Map.groupBy(code, ({ path }) => path.slice(path.lastIndexOf('/') + 1));
  return [...byName.values()]
    .filter(({ length }) => length > 1)
    .map((same) => `${same.map(({ path }) => path).join(', ')} have one name: name each by its subject`);
}
