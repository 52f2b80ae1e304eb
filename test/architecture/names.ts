/** Names that say what is inside. */
import type { Fault, File } from './tree.ts';

const VAGUE_NAME = /(?:^|\/)(?:types|utils|helpers|index)\.ts$/;

/** Drawers that collect what nobody placed, and barrels. */
export const vagueNames = (files: readonly File[]): Fault[] =>
  files.filter(({ path }) => VAGUE_NAME.test(path)).map(({ path }) => `${path} says nothing about what is inside`);

const DEFAULT_EXPORT = /(?<![\w$.])export\s+default\b|\bas\s+default\b/;

/** A default export has another name in every file that imports it. */
export const defaultExports = (files: readonly File[]): Fault[] =>
  files.filter(({ bare }) => DEFAULT_EXPORT.test(bare)).map(({ path }) => `${path} has a default export`);
