/** Golden files: reviewed texts in test/representations/golden/, and a short report of a difference. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { diff } from 'node:util';

const FOLDER = join(import.meta.dirname, '../representations/golden');
const isUpdate = process.env['UPDATE_GOLDEN'] === '1';

const SHOWN_LINES = 16;
const SHOWN_CHARACTERS = 240;

const cut = (line: string): string => (line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line);

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
  const shown = changed.slice(0, SHOWN_LINES).map(cut);
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

/** Compares a text with its golden file, in the form that `comparable` returns. `UPDATE_GOLDEN=1` writes the file first. */
export async function assertGolden(
  name: string,
  text: string,
  comparable: (text: string) => string = (same) => same,
): Promise<void> {
  const file = join(FOLDER, `${name}.golden`);
  if (isUpdate) await writeFile(file, text);
  const [actual, expected] = [text, await readFile(file, 'utf8')].map((one) => comparable(one).split('\n'));
  assert.ok(actual !== undefined && expected !== undefined);
  const place = relative(process.cwd(), file);
  assertSameLines(actual, expected, `${place} differs; UPDATE_GOLDEN=1 rewrites it:`);
}
