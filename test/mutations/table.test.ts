import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inOrderOfChange, readCatalogue } from './catalogue.ts';
import { mutate, MutationError, parseTable } from './table.ts';

const TARGET = 'src/identity/oauth/oauth-sql.ts';
const NAMED = `${TARGET}\ncode-used-twice: A code is used once.\n  test/journeys/token.test.ts > a > b\n`;

test('an entry names its file, what it guards, the test that must fail, and the lines', () => {
  assert.deepEqual(parseTable(`${NAMED}  -  and used_at is null\n  --- a comment\n  +and true\n`), [
    {
      name: 'code-used-twice',
      guards: 'A code is used once.',
      target: TARGET,
      testFile: 'test/journeys/token.test.ts',
      testName: 'a > b',
      find: ['and used_at is null', '-- a comment'],
      replacement: ['and true'],
    },
  ]);
});

test('lines are found whatever their indentation is, and must occur once', () => {
  const change = { target: TARGET, find: ['a', 'b'], replacement: ['c'] };
  assert.equal(mutate('a\n  a\n    b\nb', change), 'a\n  c\nb');
  assert.equal(mutate('a\nb\n', { ...change, replacement: [] }), '');
  for (const source of ['a\nc', 'a\nb\na\nb']) assert.throws(() => mutate(source, change), MutationError);
});

const malformed: readonly (readonly [name: string, text: string, message: RegExp])[] = [
  ['without a file', 'code-used-twice: A code.\n', /:1: a path/],
  ['without a test', `${TARGET}\ncode-used-twice: A code.\n  -a\n`, /:3: code-used-twice has to name a test/],
  ['without lines', `${NAMED}second: B.\n`, /:4: code-used-twice has no line/],
  ['of two with one name', `${NAMED}  -a\ncode-used-twice: A code.\n`, /:5: there are two/],
  ['of a test', 'src/oauth/token.test.ts\n', /:1: expected a path of a file in src/],
  ['of a migration', 'migrations/0001-first-tables.sql\n', /:1: expected a path of a file in src/],
  ['with an unknown line', `${NAMED}  * a\n`, /:4: expected/],
];

for (const [name, text, message] of malformed) {
  test(`an entry ${name} is refused`, () =>
    assert.throws(
      () => parseTable(text),
      (error) => error instanceof MutationError && message.test(error.message),
    ));
}

test('every mutation can be applied', () => {
  const entries = readCatalogue();
  const faults = entries.flatMap(({ name, fault }) => (fault === undefined ? [] : [`${name}: ${fault}`]));
  assert.deepEqual(faults, []);
});

test('each mutation is tried once: changed lines first, then changed files, then the rest from another place each day', () => {
  const entries = readCatalogue();
  const { changed, near, others } = inOrderOfChange(entries, 500);
  const order = [...changed, ...near, ...others];
  assert.equal(order.length, entries.length);
  assert.deepEqual(new Set(order), new Set(entries));
});
