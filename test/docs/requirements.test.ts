/** test/security/requirements.md has every requirement of its chapters once, and names only files and tests that exist. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { filesOfProject, readPage, ROOT } from './page.ts';

const PATH = 'test/security/requirements.md';
const text = readFileSync(join(ROOT, PATH), 'utf8');
const { names } = readPage(PATH, text);
const files = filesOfProject();

/** The numbers of requirements in the sections of ASVS 5.0. */
const REQUIREMENTS = {
  '6': [3, 12, 8, 6, 8, 4, 2, 4],
  '7': [3, 4, 2, 5, 3, 2],
  '10': [2, 3, 5, 16, 5, 2, 3],
} as const;

const expected = Object.entries(REQUIREMENTS)
  .toSorted(([a], [b]) => Number(a) - Number(b))
  .flatMap(([chapter, sections]) =>
    sections.flatMap((count, section) =>
      Array.from({ length: count }, (_, index) => `${chapter}.${section + 1}.${index + 1}`),
    ),
  );

/** The cells of the tables' rows, by their first one. RFC 9700 has a row for each recommendation, the server for each requirement. */
const rows = [...text.matchAll(/^\| (\d[\d.]*) \| (.+) \|$/gm)].map(([, number = '', rest = '']) => ({
  number,
  cells: rest.split(' | '),
}));

test('the tables have each requirement of ASVS 5.0 V6, V7 and V10 once, with its level', () => {
  const asvs = rows.filter(({ cells }) => cells.length === 4);
  assert.deepEqual(
    asvs.map(({ number }) => number),
    expected,
  );
  for (const { number, cells } of asvs) assert.match(cells[0] ?? '', /^[123]$/, number);
});

test('each row says where its requirement is met, or why it is not', () => {
  assert.ok(rows.length > expected.length + 20);
  for (const { number, cells } of rows) {
    const [state = '', tests = ''] = cells.slice(-2);
    assert.match(state, /^(?:(?:partly|not met|–): .+|not met by .+|met\b.*[:(,].+|see .+)$/, number);
    assert.notEqual(tests, '', number);
  }
});

test('every file that the tables name exists', () => {
  const named = names.filter((name) => /^(?:src|test)\//.test(name) && !name.includes(' > '));
  assert.ok(named.length > 0);
  assert.deepEqual(
    named.filter((name) => !files.includes(name)),
    [],
  );
});

/** A title in the source, between its quotes: a test of node:test at the top level of its file, or in a loop there. */
const TEST = /(?<![\w.])test\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g;

/** Returns the titles of the tests in a file. A template is returned as it is in the source. */
function titlesIn(source: string): string[] {
  return [...source.matchAll(TEST)].map(([, , title = '']) => title.replaceAll(/\\(.)/g, '$1'));
}

test('every test that the tables name exists', () => {
  const tests = names.filter((name) => name.includes(' > '));
  assert.ok(tests.length > 0);
  const isThere = (named: string): boolean => {
    const [file = '', title = ''] = named.split(/ > (.*)/s);
    return files.includes(file) && titlesIn(readFileSync(join(ROOT, file), 'utf8')).includes(title);
  };
  assert.deepEqual(
    tests.filter((named) => !isThere(named)),
    [],
  );
});

test('a title is read from its source', () => {
  const source = "test(`${path} with ${what} is refused`, async () => {});\n  test('it isn\\'t', () => {});";
  assert.deepEqual(titlesIn(source), ['${path} with ${what} is refused', "it isn't"]);
  assert.deepEqual(titlesIn("await t.test('inside of another', () => {});"), []);
});
