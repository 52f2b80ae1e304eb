/** Golden files: reviewed texts in test/representations/golden/, and a short report of a difference. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { diff } from 'node:util';

const FOLDER = join(import.meta.dirname, '../representations/golden');
const isUpdate = process.env['UPDATE_GOLDEN'] === '1';

const SHOWN_LINES = 16;
const SHOWN_CHARACTERS = 240;

/** The characters before the first one that differs from the line beside it. */
const SHOWN_BEFORE = 80;

/** Returns the part of a long line in which it differs from the line before or after it that only the other text has. */
function cut(line: string, index: number, lines: readonly string[]): string {
  if (line.length <= SHOWN_CHARACTERS) return line;
  const other = [lines[index - 1], lines[index + 1]].find((one) => one !== undefined && one[0] !== line[0]) ?? '';
  let differs = 1;
  while (differs < line.length && line[differs] === other[differs]) differs += 1;
  const from = Math.max(2, differs - SHOWN_BEFORE);
  return `${line.slice(0, 2)}${from > 2 ? '…' : ''}${line.slice(from, from + SHOWN_CHARACTERS)}…`;
}

function withoutEach(lines: readonly string[], others: readonly string[]): string[] {
  const left = [...others];
  return lines.filter((line) => {
    const at = left.indexOf(line);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/**
 * Returns the lines that only one text has, `-` before those of `base`. A line that is added to both changes nothing, unlike in a
 * difference by place.
 */
export function ownLines(lines: readonly string[], base: readonly string[]): string[] {
  return [
    ...withoutEach(base, lines).map((line) => `- ${line}`),
    ...withoutEach(lines, base).map((line) => `+ ${line}`),
  ];
}

/** Returns the first lines that differ, `-` before the expected and `+` before the actual ones; none for equal texts. */
export function differenceOf(actual: readonly string[], expected: readonly string[]): string[] {
  const changed = diff(actual, expected).flatMap(([operation, line]) => {
    if (operation === 0) return [];
    return [`${operation === 1 ? '+' : '-'} ${line}`];
  });
  const shown = changed.slice(0, SHOWN_LINES).map((line, index) => cut(line, index, changed));
  return changed.length > shown.length ? [...shown, `and ${changed.length - shown.length} more lines`] : shown;
}

/** Fails with the first lines that differ, instead of both texts as `assert.equal` does. */
export function assertSameLines(actual: readonly string[], expected: readonly string[], head: string): void {
  const difference = differenceOf(actual, expected);
  if (difference.length === 0) return;
  const error = new assert.AssertionError({ message: [head, ...difference].join('\n'), operator: 'fail' });
  // The name of the test says more than where it compares.
  error.stack = error.message;
  throw error;
}

type Comparable = (text: string) => string;

function assertReviewed(file: string, { actual, expected }: { actual: string; expected: string }): void {
  const head = `${relative(process.cwd(), file)} differs; UPDATE_GOLDEN=1 rewrites it:`;
  assertSameLines(actual.split('\n'), expected.split('\n'), head);
}

/** Compares a text with its golden file, in the form that `comparable` returns. `UPDATE_GOLDEN=1` writes the file first. */
export async function assertGolden(name: string, text: string, comparable: Comparable = (same) => same): Promise<void> {
  const file = join(FOLDER, `${name}.golden`);
  if (isUpdate) await writeFile(file, text);
  assertReviewed(file, { actual: comparable(text), expected: comparable(await readFile(file, 'utf8')) });
}

const HEADING = /^=== (.*)\n/m;

/** Golden files with several parts, each below a line `=== part`. */
export function openGoldenParts(comparable: Comparable = (same) => same) {
  const files = new Map<string, Map<string, string>>();
  const compared = new Set<string>();
  const partsOf = async (file: string): Promise<Map<string, string>> => {
    const known = files.get(file);
    if (known !== undefined) return known;
    const [, ...pieces] = (await readFile(file, 'utf8').catch(() => '')).split(HEADING);
    const parts = new Map<string, string>();
    for (let at = 0; at + 1 < pieces.length; at += 2) parts.set(pieces[at] ?? '', pieces[at + 1] ?? '');
    files.set(file, parts);
    return parts;
  };
  const write = (file: string, parts: ReadonlyMap<string, string>): Promise<void> =>
    writeFile(file, [...parts].map(([heading, body]) => `=== ${heading}\n${body}`).join(''));
  return {
    assertPart: async (name: string, part: string, text: string): Promise<void> => {
      const file = join(FOLDER, `${name}.golden`);
      const parts = await partsOf(file);
      compared.add(`${file} ${part}`);
      if (isUpdate) await write(file, parts.set(part, text));
      const expected = parts.get(part) ?? assert.fail(`${file} has no part ${part}; UPDATE_GOLDEN=1 adds it`);
      assertReviewed(file, { actual: comparable(text), expected: comparable(expected) });
    },
    /** Fails if a file has a part that nothing was compared with; `UPDATE_GOLDEN=1` removes it. */
    assertAllCompared: async (): Promise<void> => {
      for (const [file, parts] of files) {
        const unused = [...parts.keys()].filter((part) => !compared.has(`${file} ${part}`));
        if (!isUpdate) assert.deepEqual(unused, [], file);
        for (const part of unused) parts.delete(part);
        if (unused.length > 0) await write(file, parts);
      }
    },
  };
}
