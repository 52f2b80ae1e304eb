/** The table of security requirements matches this tree: its tests exist, and its guarded clauses have mutations. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readCatalogue } from '../mutations/catalogue.ts';
import { splitTestName, titlesIn } from '../setup/test-titles.ts';
import { sections } from './requirements.ts';

const ROOT = join(import.meta.dirname, '../..');
const clauses = sections.flatMap(({ section, clauses: all }) => all.map((clause) => ({ section, ...clause })));

const catalogue = new Map(readCatalogue().map(({ name, mutation }) => [name, mutation]));

const known = new Map<string, Promise<string[]>>();
function namesOf(file: string): Promise<string[]> {
  const there = known.get(file) ?? readFile(join(ROOT, file), 'utf8').then(titlesIn);
  known.set(file, there);
  return there;
}

/** Returns whether a test with this title comes from this literal in the source, which may be a template. */
function canBe(inSource: string, name: string): boolean {
  const parts = inSource.split(/\$\{[^}]*\}/).map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join('.+')}$`, 's').test(name);
}

for (const { section, clause, tests, mutations = [], guards, later } of clauses) {
  test(`${section}: ${clause}`, async () => {
    assert.ok(tests.length > 0 || later !== undefined, 'a test proves it, or `later` names the place');
    for (const named of tests) {
      const [file, name] = splitTestName(named);
      assert.ok((await namesOf(file)).includes(name), `There is no test ${named}`);
    }
    if (guards !== undefined) assert.notEqual(mutations.length, 0, `it guards a ${guards}: a mutation test must exist`);
    for (const mutation of mutations) {
      const { testFile, testName } = catalogue.get(mutation) ?? assert.fail(`there is no mutation ${mutation}`);
      const names = await namesOf(testFile);
      assert.ok(
        names.some((name) => canBe(name, testName)),
        `${mutation} names a test that does not exist: ${testName}`,
      );
    }
  });
}

test('the table has all clauses, each once', () => {
  assert.deepEqual(
    sections.map(({ section, clauses: all }) => [section, all.length]),
    [
      ['Redirects', 9],
      ['Codes', 5],
      ['Tokens', 8],
      ['Client authentication', 7],
      ['Browser', 8],
      ['Protocol', 9],
    ],
  );
  assert.equal(new Set(clauses.map(({ clause }) => clause)).size, clauses.length);
});

test('clauses proved elsewhere are counted, and name the place', () => {
  const later = clauses.flatMap((clause) => clause.later ?? []);
  assert.deepEqual(
    later.map((text) => text.split(':', 1)[0]),
    ['bench/purge.ts'],
  );
  for (const [, file] of later.join('\n').matchAll(/^(bench\/\S+\.ts):/gm))
    assert.ok(existsSync(join(ROOT, file ?? '')));
});

test('a template title matches all its expansions, and no other title', () => {
  const source = "test(`${path} with ${what} is refused`, async () => {});\n  test('it isn\\'t', () => {});";
  assert.deepEqual(titlesIn(source), ['${path} with ${what} is refused', "it isn't"]);
  assert.deepEqual(titlesIn("await t.test('inside of another', () => {});"), []);
  assert.equal(canBe('${path} with ${what} is refused', '/token with a NUL is refused'), true);
  assert.equal(canBe('${path} with ${what} is refused', '/token with a NUL is taken'), false);
});
