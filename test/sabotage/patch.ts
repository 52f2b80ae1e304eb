/** A line of sabotage: which line of src, or of a package's src, it changes, what that line guards, and which test must notice. */

export type Sabotage = {
  /** The file that is changed. */
  target: string;
  testFile: string;
  testName: string;
  guards: string;
};

export class SabotageError extends Error {}

const HEADER = /^# turns red: (\S+\.test\.ts) > (.+)\n(?:#.*\n)*?# guards: (.+)\n/;
const FILES = /^diff --git a\/(\S+) b\/(\S+)$/gm;
const CODE = /^(?:packages\/[\w-]+\/)?src\//;
const HUNK = /^@@ .*$/m;

const countOf = (lines: readonly string[], sign: string): number =>
  lines.filter((line) => line.startsWith(sign)).length;

/** Throws a `SabotageError` where the patch lacks its header or does more than change one line of src. */
export const readPatch = (text: string): Sabotage => {
  const [header, testFile = '', testName = '', guards = ''] = HEADER.exec(text) ?? [];
  if (header === undefined)
    throw new SabotageError('it has to begin with "# turns red: <test file> > <test name>" and "# guards: …"');
  const files = [...text.matchAll(FILES)];
  const [, target = '', renamedTo] = files[0] ?? [];
  if (files.length !== 1 || target !== renamedTo)
    throw new SabotageError('it has to change one file, made by git diff');
  // The migrated template and the running tests are shared with everybody else: only code can be sabotaged.
  if (!CODE.test(target) || target.endsWith('.test.ts'))
    throw new SabotageError(`it changes ${target}: only code in src can be sabotaged`);
  // Counted from the first hunk on, because the names of the files begin with the same signs.
  const lines = text.slice(HUNK.exec(text)?.index ?? text.length).split('\n');
  const [removed, added] = [countOf(lines, '-'), countOf(lines, '+')];
  if (removed > 1 || added > 1 || removed + added === 0)
    throw new SabotageError(`it removes ${removed} lines and adds ${added}: one line is changed, no more`);
  return { target, testFile, testName, guards };
};
