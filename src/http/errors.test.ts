import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toProblem } from './errors.ts';

const hangUp = (more: object) => Object.assign(new Error('aborted'), { code: 'ECONNRESET', ...more });

test('a caller who hangs up in the middle of a body is no database that is away', () => {
  const whyUnavailable = () => 'away';
  assert.equal(toProblem(hangUp({ statusCode: 400 }), whyUnavailable).status, 400);
  assert.equal(toProblem(hangUp({}), whyUnavailable).status, 503);
});

test('nobody is told what went wrong on our side', () => {
  const problem = toProblem(new Error('a secret'), () => undefined);
  assert.deepEqual([problem.status, problem.faults.some(({ message }) => message.includes('secret'))], [500, false]);
});
