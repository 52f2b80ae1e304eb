/**
 * The table of mutations: `mutations.txt`. Each mutation replaces lines of one file, and names the test that must fail.
 *
 *     src/identity/oauth/tokens-sql.ts
 *     code-used-twice: A code is used once.
 *       test/journeys/token.test.ts > one code gives one token
 *       -and used_at is null
 *       +and true
 *
 * Lines are compared without their indentation, and must occur once in the file. There is no context, so a moved file
 * needs one new path. Lines without a `+` are removed.
 */

/** Replaces the characters from `start` to `end` of a source. */
export type Edit = { start: number; end: number; text: string };
/** `find`, `replacement`: lines without indentation. */
type Lines = { target: string; find: readonly string[]; replacement: readonly string[] };
export type Change = Lines | ({ target: string } & Edit);
export type Mutation = Lines & { name: string; guards: string; testFile: string; testName: string };

export class MutationError extends Error {}

export const CODE = /^(?:packages\/[\w-]+\/)?src\/\S+(?<!\.test)\.(?:ts|js)$/;
export const HEAD = /^([a-z\d-]+): (.+)$/;
const TEST = /^ {2}(\S+\.test\.ts) > (.+)$/;
const LINE = /^ {2}([-+])(.*)$/;

/** Throws a `MutationError` with the line number of the first line that the format above does not allow. */
export function parseTable(text: string): Mutation[] {
  const mutations: (Mutation & { find: string[]; replacement: string[] })[] = [];
  let target = '';
  for (const [index, line] of text.split('\n').entries()) {
    const fail = (reason: string): never => {
      throw new MutationError(`mutations.txt:${index + 1}: ${reason}`);
    };
    const current = mutations.at(-1);
    const [, name, guards] = HEAD.exec(line) ?? [];
    const [, testFile, testName] = TEST.exec(line) ?? [];
    const [, sign, changed] = LINE.exec(line) ?? [];
    if (line === '') continue;
    else if (CODE.test(line)) target = line;
    else if (name !== undefined && guards !== undefined) {
      if (target === '') fail('a path of a file in src has to come first');
      if (current !== undefined && current.find.length === 0) fail(`${current.name} has no line to find`);
      if (mutations.some((one) => one.name === name)) fail(`there are two mutations ${name}`);
      mutations.push({ name, guards, target, testFile: '', testName: '', find: [], replacement: [] });
    } else if (current === undefined) fail('expected a path of a file in src');
    else if (testFile !== undefined && testName !== undefined) Object.assign(current, { testFile, testName });
    else if (sign !== undefined && changed !== undefined) {
      if (current.testFile === '') fail(`${current.name} has to name a test first: "  <test file> > <test name>"`);
      (sign === '-' ? current.find : current.replacement).push(changed.trim());
    } else fail('expected a path, "name: what it guards", "  <test file> > <test name>", "  -line" or "  +line"');
  }
  return mutations;
}

/** Returns the index of the first line to replace. Throws a `MutationError` if the lines do not occur exactly once. */
export function placeOf(lines: readonly string[], { target, find }: Lines): number {
  const places = lines.flatMap((_, at) =>
    find.every((expected, offset) => lines[at + offset]?.trim() === expected) ? [at] : [],
  );
  const [place] = places;
  if (find.length === 0 || place === undefined || places.length > 1)
    throw new MutationError(`${target} has the lines to find ${places.length} times: they have to occur once`);
  return place;
}

/** Returns the mutated source. Throws a `MutationError` if the lines to replace do not occur exactly once. */
export function mutate(source: string, change: Change | Edit): string {
  if ('start' in change) return source.slice(0, change.start) + change.text + source.slice(change.end);
  const lines = source.split('\n');
  const place = placeOf(lines, change);
  const indentation = /^\s*/.exec(lines[place] ?? '')?.[0] ?? '';
  const replacement = change.replacement.map((line) => indentation + line);
  return lines.toSpliced(place, change.find.length, ...replacement).join('\n');
}
