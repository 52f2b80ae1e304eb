import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultOfProof, faultOfWitness, type Observation } from './proof.ts';
import { mutate, MutationError, readPatch } from './patch.ts';

const NAME = 'one code gives one token';
const passed = (name = NAME): Observation => ({ name, nesting: 0, outcome: 'passed' });
const failed = (failure: Partial<Observation['failure']> = {}, nesting = 0, name = NAME): Observation => ({
  name,
  nesting,
  outcome: 'failed',
  failure: { type: 'testCodeFailure', name: 'AssertionError', code: 'ERR_ASSERTION', message: '2 !== 1', ...failure },
});

test('a named test that fails by its own assertion is a proof', () => {
  assert.equal(faultOfProof([failed()], NAME), undefined);
});

test('a named test that fails by a nested test is a proof, too', () => {
  assert.equal(faultOfProof([failed({}, 1, 'inner'), failed({ type: 'subtestsFailed' })], NAME), undefined);
});

const noProof: readonly (readonly [name: string, observed: Observation[], message: RegExp])[] = [
  ['a passing run', [passed()], /passes/],
  ['a skipped test', [{ ...passed(), outcome: 'skipped' }], /passes \(skipped\)/],
  ['a run of nothing', [], /was empty/],
  ['a run of another test', [failed({}, 0, 'another')], /alone and was "another"/],
  ['two failing tests', [failed(), failed({}, 0, 'another')], /alone/],
  ['two tests of one name', [failed(), failed()], /alone/],
  [
    'a file that does not load',
    [failed({}, 0, 'src/oauth/token.test.ts')],
    /alone and was "src\/oauth\/token.test.ts"/,
  ],
  ['a test that hangs', [failed({ type: 'testTimeoutFailure' })], /another reason: testTimeoutFailure/],
  ['a hook that fails', [failed({ type: 'hookFailed' })], /another reason: hookFailed/],
  ['a name that is gone', [failed({ name: 'ReferenceError' })], /another reason: testCodeFailure, ReferenceError/],
  ['SQL that is no longer SQL', [failed({ name: 'PostgresError', code: '42601' })], /PostgresError/],
  ['a module that is gone', [failed({ name: 'Error', code: 'ERR_MODULE_NOT_FOUND' })], /another reason/],
  ['a failure without a cause', [failed({ type: 'subtestsFailed' })], /without a cause/],
];

for (const [name, observed, message] of noProof) {
  test(`${name} proves nothing`, () => assert.match(faultOfProof(observed, NAME) ?? '', message));
}

test('without a mutation the test must run alone and pass', () => {
  assert.equal(faultOfWitness([passed()], NAME), undefined);
  assert.match(faultOfWitness([failed()], NAME) ?? '', /failed without any mutation/);
  assert.match(faultOfWitness([{ ...passed(), outcome: 'skipped' }], NAME) ?? '', /skipped without/);
  assert.match(faultOfWitness([passed('another')], NAME) ?? '', /alone/);
  assert.match(faultOfWitness([passed(), passed('another')], NAME) ?? '', /alone/);
});

const HEADER = '# must fail: test/journeys/token.test.ts > a > b\n# guards: that a code is used once.\n';
const diff = (path: string, ...lines: string[]): string =>
  [`diff --git a/${path} b/${path}`, `--- a/${path}`, `+++ b/${path}`, '@@ -1,3 +1,2 @@', ' kept', ...lines, ''].join(
    '\n',
  );
const QUERIES = 'src/identity/oauth/oauth-sql.ts';

test('a patch names the test that must fail, and the reason', () => {
  assert.deepEqual(readPatch(HEADER + diff(QUERIES, '-    and used_at is null')), {
    target: QUERIES,
    testFile: 'test/journeys/token.test.ts',
    testName: 'a > b',
    guards: 'that a code is used once.',
    before: ['kept', '    and used_at is null'],
    after: ['kept'],
    line: 0,
  });
});

test('a removed comment of SQL is one line', () => {
  assert.equal(readPatch(HEADER + diff(QUERIES, '--- a comment', '+-- another')).target, QUERIES);
});

test('a mutation is applied where its context has moved to, nearest to its original place', () => {
  const mutation = { ...readPatch(HEADER + diff(QUERIES, '-a', '+b')), line: 4 };
  assert.equal(mutate('kept\na\nx\nkept\na\n', mutation), 'kept\na\nx\nkept\nb\n');
  assert.equal(mutate('x\nx\nkept\na', mutation), 'x\nx\nkept\nb');
  assert.throws(() => mutate('kept\nx\na\n', mutation), MutationError);
});

const malformed: readonly (readonly [name: string, text: string, message: RegExp])[] = [
  ['without a header', diff(QUERIES, '-a'), /has to begin with/],
  ['without a reason', HEADER.replace(/# guards.*\n/, '') + diff(QUERIES, '-a'), /has to begin with/],
  ['of two lines', HEADER + diff(QUERIES, '-a', '-b'), /removes 2 lines/],
  ['that adds two lines', HEADER + diff(QUERIES, '-a', '+b', '+c'), /adds 2/],
  ['of no line', HEADER + diff(QUERIES), /removes 0 lines and adds 0/],
  ['of two files', HEADER + diff(QUERIES, '-a') + diff('src/server/app.ts', '-a'), /one file/],
  ['of no file', HEADER, /one file/],
  ['of a test', HEADER + diff('src/oauth/token.test.ts', '-a'), /only code/],
  ['of a migration', HEADER + diff('migrations/0001-first-tables.sql', '-a'), /only code/],
];

for (const [name, text, message] of malformed) {
  test(`a patch ${name} is refused`, () => assert.throws(() => readPatch(text), message));
}
