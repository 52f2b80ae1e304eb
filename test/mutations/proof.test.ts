import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultOfProof, faultOfWitness, type Observation } from './proof.ts';

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
