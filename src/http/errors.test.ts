import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toProblem } from './errors.ts';

const hangUp = (more: object) => Object.assign(new Error('aborted'), { code: 'ECONNRESET', ...more });

test('a caller that disconnects during its body is not reported as an unavailable database', () => {
  const whyUnavailable = () => 'away';
  assert.equal(toProblem(hangUp({ statusCode: 400 }), whyUnavailable).status, 400);
  assert.equal(toProblem(hangUp({}), whyUnavailable).status, 503);
});

test('an internal error reveals no details', () => {
  const problem = toProblem(new Error('a secret'), () => undefined);
  assert.deepEqual([problem.status, problem.faults.some(({ message }) => message.includes('secret'))], [500, false]);
});
