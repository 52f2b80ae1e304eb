import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Problem } from '#core/problem.ts';
import { readQuery } from './resource.ts';

for (const raw of ['name=%ff', 'name=%C3%28', 'limit=1&name=%', 'name=%zz', 'name=\xff', 'name=a b'])
  test(`${JSON.stringify(raw)} is a 400 that names the parameter`, () =>
    assert.throws(
      () => readQuery(raw),
      ({ status, faults }: Problem) =>
        status === 400 && faults.map(({ code, field }) => `${code} ${field}`).join() === 'malformed_request name',
    ));

test('a UTF-8 parameter is read, a repeated one as often as it occurs', () => {
  const query = readQuery('name=J%C3%BCrgen+K&name=50%25&limit');
  assert.deepEqual(
    [...query],
    [
      ['name', 'Jürgen K'],
      ['name', '50%'],
      ['limit', ''],
    ],
  );
  assert.equal(readQuery('').size, 0);
});
