import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toProblem } from './errors.ts';

const hangUp = (more: object) => Object.assign(new Error('aborted'), { code: 'ECONNRESET', ...more });

test('a caller who hangs up in the middle of a body is no database that is away', () => {
  const isUnavailable = () => true;
  assert.equal(toProblem(hangUp({ statusCode: 400 }), isUnavailable).status, 400);
  assert.equal(toProblem(hangUp({}), isUnavailable).status, 503);
});

test('nobody is told what went wrong on our side', () => {
  const problem = toProblem(new Error('a secret'), () => false);
  assert.deepEqual([problem.status, problem.faults.some(({ message }) => message.includes('secret'))], [500, false]);
});
