/** The files of the project as the rules see them: their module, their lines, their imports. */
import { readdir, readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { readSource, type Source } from './source.ts';

export type Import = {
  specifier: string;
  /** The imported file, from the project's root; undefined for a package or a module of Node. */
  target: string | undefined;
  /** Erased when the file runs, so it is part of no cycle. */
  isTypeOnly: boolean;
  /** An `import()`, which loads on use. */
  isLazy: boolean;
};

export type File = Source & { path: string; lines: number; isTest: boolean; imports: Import[] };

/** A fault; one line that names the file. */
export type Fault = string;
export type Rule = (files: readonly File[]) => Fault[];

/** The module by its name in the imports of package.json. */
const PACKAGES: Readonly<Record<string, string>> = {
  '#receiver': 'packages/receiver/src/receiver.ts',
  '#publisher': 'packages/publisher/src/publisher.ts',
  '#retry-after': 'packages/publisher/src/retry-after.ts',
};

/** Returns the module of a file: its folder in src (in `identity/` the one below), the name of a package, `main` for src/main.ts. */
export function moduleOf(path: string): string | undefined {
  const [top, folder = '', ...rest] = path.split('/');
  if (top === 'packages' && rest[0] === 'src') return folder;
  if (path === 'src/main.ts') return 'main';
  if (top !== 'src' || rest.length === 0) return undefined;
  return folder === 'identity' ? `${folder}/${rest[0] ?? ''}` : folder;
}

function resolve(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('#')) return PACKAGES[specifier] ?? `src/${specifier.slice(1)}`;
  if (specifier.startsWith('.')) return posix.join(posix.dirname(from), specifier);
  return undefined;
}

// `import type … from`, `import … from`, `export type … from`, `export … from`, `import '…'`; over as many lines as it takes.
const STATIC = /(?<![\w$.])(?:import|export)\s+(type\b(?!\s+from\b)\s*)?(?:[\w$\s{},*]+?\sfrom\s*)?(?=(['"]))/g;
const DYNAMIC = /(?<![\w$.])(typeof\s+)?import\s*\(\s*/g;
const STRING = /(['"])([^'"\n]*)\1/y;

function stringAt(code: string, at: number): string | undefined {
  STRING.lastIndex = at;
  return STRING.exec(code)?.[2];
}

/**
 * Returns the imports of a file. Keywords are searched in `bare`, which has no strings, and the specifier is then
 * read from `code`. A computed `import()` is returned as the specifier `import()`, which no rule allows.
 */
export function importsOf(path: string, { code, bare }: Source): Import[] {
  const found = (specifier: string, isTypeOnly: boolean, isLazy = false): Import => ({
    specifier,
    target: resolve(path, specifier),
    isTypeOnly,
    isLazy,
  });
  const fixed = [...bare.matchAll(STATIC)].flatMap((match) => {
    const specifier = stringAt(code, match.index + match[0].length);
    return specifier === undefined ? [] : [found(specifier, match[1] !== undefined)];
  });
  const dynamic = [...bare.matchAll(DYNAMIC)].map((match) =>
    found(stringAt(code, match.index + match[0].trimEnd().length) ?? 'import()', match[1] !== undefined, true),
  );
  return [...fixed, ...dynamic];
}

export function fileOf(path: string, text: string): File {
  const source = readSource(text);
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  return { ...source, path, lines, isTest: path.endsWith('.test.ts'), imports: importsOf(path, source) };
}

/** Every TypeScript file under a folder of the project. */
export async function readTree(root: string, folder: string): Promise<File[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.parentPath.includes('node_modules'))
    .map((entry) => posix.relative(root, posix.join(entry.parentPath, entry.name)))
    .toSorted();
  return Promise.all(paths.map(async (path) => fileOf(path, await readFile(join(root, path), 'utf8'))));
}
