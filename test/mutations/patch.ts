/** A mutation: a patch that changes one line of code, with the test that must fail because of it. */

export type Mutation = {
  /** The changed file. */
  target: string;
  testFile: string;
  testName: string;
  guards: string;
  /** The replaced lines of the target with their context, and their replacement. */
  before: readonly string[];
  after: readonly string[];
  /** The position of `before` in the target when the patch was made, counted from 0. */
  line: number;
};

export class MutationError extends Error {}

const HEADER = /^# must fail: (\S+\.test\.ts) > (.+)\n(?:#.*\n)*?# guards: (.+)\n/;
const FILES = /^diff --git a\/(\S+) b\/(\S+)$/gm;
const CODE = /^(?:packages\/[\w-]+\/)?src\//;
const HUNK = /^@@ -(\d+).*\n/m;

function countOf(lines: readonly string[], sign: string): number {
  return lines.filter((line) => line.startsWith(sign)).length;
}

/** Returns the lines of a hunk that start with a blank or this sign, without it. */
function side(lines: readonly string[], sign: string): string[] {
  return lines.filter((line) => line.startsWith(' ') || line.startsWith(sign)).map((line) => line.slice(1));
}

/** Throws a `MutationError` if the patch lacks its header or changes more than one line of code. */
export function readPatch(text: string): Mutation {
  const [header, testFile = '', testName = '', guards = ''] = HEADER.exec(text) ?? [];
  if (header === undefined)
    throw new MutationError('it has to begin with "# must fail: <test file> > <test name>" and "# guards: …"');
  const files = [...text.matchAll(FILES)];
  const [, target = '', renamedTo] = files[0] ?? [];
  if (files.length !== 1 || target !== renamedTo)
    throw new MutationError('it has to change one file, made by git diff');
  // All runs share the migrated template and the test set-up: only code can be mutated.
  if (!CODE.test(target) || target.endsWith('.test.ts'))
    throw new MutationError(`it changes ${target}: only code in src can be mutated`);
  const hunk = HUNK.exec(text);
  // Counted from the first hunk, because the names of the files begin with the same signs.
  const lines =
    hunk === null
      ? []
      : text
          .slice(hunk.index + hunk[0].length)
          .trimEnd()
          .split('\n');
  const [removed, added] = [countOf(lines, '-'), countOf(lines, '+')];
  if (removed > 1 || added > 1 || removed + added === 0)
    throw new MutationError(`it removes ${removed} lines and adds ${added}: one line is changed, no more`);
  const line = Number(hunk?.[1]) - 1;
  return { target, testFile, testName, guards, before: side(lines, '-'), after: side(lines, '+'), line };
}

/**
 * Returns the source with the mutation applied where its context is now; of several places, at the nearest
 * to the original one. Throws a `MutationError` if the context is gone.
 */
export function mutate(source: string, { before, after, line }: Mutation): string {
  const lines = source.split('\n');
  const places = lines.flatMap((_, at) =>
    before.every((expected, offset) => lines[at + offset] === expected) ? [at] : [],
  );
  const [place] = places.toSorted((a, b) => Math.abs(a - line) - Math.abs(b - line));
  if (place === undefined) throw new MutationError('it no longer applies: make it again with git diff');
  return lines.toSpliced(place, before.length, ...after).join('\n');
}
