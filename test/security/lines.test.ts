/** The table of what must hold is true of this tree: its tests exist, and what it says is guarded has mutations. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPatch } from '../mutations/patch.ts';
import { lines } from './lines.ts';

const ROOT = join(import.meta.dirname, '../..');
const clauses = lines.flatMap(({ line, clauses: all }) => all.map((clause) => ({ line, ...clause })));

/** A name in the source, between its quotes: a test of node:test at the top level of its file, or in a loop there. */
const TEST = /(?<![\w.])test\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/g;

const namesIn = (source: string): string[] =>
  [...source.matchAll(TEST)].map(([, , name = '']) => name.replaceAll(/\\(.)/g, '$1'));

const known = new Map<string, Promise<string[]>>();
function namesOf(file: string): Promise<string[]> {
  const there = known.get(file) ?? readFile(join(ROOT, file), 'utf8').then(namesIn);
  known.set(file, there);
  return there;
}

/** `<file> > <name>` in its two halves. */
function halves(named: string): [file: string, name: string] {
  const at = named.indexOf(' > ');
  return [named.slice(0, at), named.slice(at + 3)];
}

/** Whether a test that runs under this name comes from this one in the source, which may leave something open. */
function canBe(inSource: string, name: string): boolean {
  const parts = inSource.split(/\$\{[^}]*\}/).map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join('.+')}$`, 's').test(name);
}

for (const { line, clause, tests, mutations = [], guards, later } of clauses) {
  test(`${line}: ${clause}`, async () => {
    assert.ok(tests.length > 0 || later !== undefined, 'a test shows it, or it says when one will');
    for (const named of tests) {
      const [file, name] = halves(named);
      assert.ok((await namesOf(file)).includes(name), `There is no test ${named}`);
    }
    if (guards !== undefined) assert.notEqual(mutations.length, 0, `it guards a ${guards}: a mutation must be caught`);
    for (const patch of mutations) {
      const { testFile, testName } = readPatch(await readFile(join(ROOT, `test/mutations/${patch}.patch`), 'utf8'));
      const names = await namesOf(testFile);
      assert.ok(
        names.some((name) => canBe(name, testName)),
        `${patch} names a test that is not there: ${testName}`,
      );
    }
  });
}

test('the clauses are all there, none of them twice', () => {
  assert.deepEqual(
    lines.map(({ line, clauses: all }) => [line, all.length]),
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

test('what is proved later or elsewhere is counted, and says where', () => {
  const later = clauses.flatMap((clause) => clause.later ?? []);
  assert.deepEqual(
    later.map((text) => text.split(':', 1)[0]),
    ['bench/purge.ts'],
  );
  for (const [, file] of later.join('\n').matchAll(/^(bench\/\S+\.ts):/gm))
    assert.ok(existsSync(join(ROOT, file ?? '')));
});

test('a name of a template is every name that it can become, and no other', () => {
  const source = "test(`${path} with ${what} is refused`, async () => {});\n  test('it isn\\'t', () => {});";
  assert.deepEqual(namesIn(source), ['${path} with ${what} is refused', "it isn't"]);
  assert.deepEqual(namesIn("await t.test('inside of another', () => {});"), []);
  assert.equal(canBe('${path} with ${what} is refused', '/token with a NUL is refused'), true);
  assert.equal(canBe('${path} with ${what} is refused', '/token with a NUL is taken'), false);
});
