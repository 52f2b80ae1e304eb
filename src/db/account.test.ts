import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeAccount } from './data-folder.ts';

const lineOf = (id: number): string => `name${id}:x:${id}:0::/:/bin/sh`;

test('the database gets the first id that is neither a user nor a group; without one the start fails', () => {
  assert.deepEqual(freeAccount(['root:x:0:0::/:', '']), { uid: 65_520, gid: 65_520 });
  const [users, groups] = [[0, 65_520, 65_522, 65_534].map(lineOf), ['halcyon:x:65521:']];
  assert.deepEqual(freeAccount([users.join('\n'), groups.join('\n')]), { uid: 65_523, gid: 65_523 });
  const all = Array.from({ length: 14 }, (_, index) => lineOf(65_520 + index)).join('\n');
  assert.throws(() => freeAccount([all, '']), { name: 'DatabaseError' });
});
