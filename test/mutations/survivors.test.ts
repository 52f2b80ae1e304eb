import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { contentOf } from './catalogue.ts';
import { readListed } from './choice.ts';
import { withoutEntries } from './counterparts.ts';
import { describe, outdated, parseSurvivors, readSurvivors, SurvivorError } from './survivors.ts';

const SOURCE = 'const a = b &&\n  c;\n';
const TEXT = 'src/a.ts\n  const a = b &&\n    && → ||\n      Equivalent: c is b.\n';

test('a survivor has a file, a line, a change and a reason', () => {
  const [survivor] = parseSurvivors(TEXT);
  assert.deepEqual(survivor, {
    target: 'src/a.ts',
    line: 'const a = b &&',
    change: '&& → ||',
    reason: 'Equivalent: c is b.',
  });
  for (const text of [
    '  line\n',
    'src/a.ts\n    a → b\n',
    'src/a.ts\n  line\n      reason\n',
    'src/a.ts\n  line\n    a\n',
  ])
    assert.throws(() => parseSurvivors(text), SurvivorError);
});

test('a change is described by its line, without line breaks, shortened in the middle', () => {
  assert.deepEqual(describe(SOURCE, { start: 10, end: 18, text: '' }), {
    line: 'const a = b &&',
    change: 'b && c → nothing',
  });
  const { change } = describe(`f(${'a'.repeat(200)});`, { start: 0, end: 204, text: 'g()' });
  assert.match(change, /^f\(a{58}…a{17}\); → g\(\)$/);
});

test('a survivor whose mutation is no longer made is outdated', () => {
  const survivors = parseSurvivors(TEXT);
  assert.deepEqual(
    outdated(survivors, () => SOURCE),
    [],
  );
  assert.deepEqual(
    outdated(survivors, () => 'const a = b || c;'),
    survivors,
  );
});

test('every reviewed survivor is still made, and every listed test exists', () => {
  assert.deepEqual(outdated(readSurvivors(), contentOf), []);
  for (const [path, tests] of readListed()) for (const file of [path, ...tests]) assert.ok(existsSync(file), file);
});

test('entries are removed from the table, and a path without entries, too', () => {
  const entry = (name: string) => `${name}: A.\n  src/a.test.ts > a\n  -a\n`;
  const table = `src/a.ts\n${entry('a')}${entry('b')}\nsrc/c.ts\n${entry('c')}`;
  assert.equal(withoutEntries(table, new Set(['a'])), `src/a.ts\n${entry('b')}\nsrc/c.ts\n${entry('c')}`);
  assert.equal(withoutEntries(table, new Set(['a', 'b'])), `src/c.ts\n${entry('c')}`);
  assert.equal(withoutEntries(table, new Set(['c'])), `src/a.ts\n${entry('a')}${entry('b')}`);
});
