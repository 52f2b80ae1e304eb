import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionOf } from './dump.ts';

const argumentsOf = (url: string) => connectionOf({ kind: 'url', url });

test('the password goes into the environment, which other users of the machine cannot read', () => {
  const { name, env } = argumentsOf('postgres://ada:s%40cret@db.example:5433/halcyon?sslmode=require');
  assert.equal(name, 'postgres://ada@db.example:5433/halcyon?sslmode=require');
  assert.deepEqual(env, { PGPASSWORD: 's@cret' });
});

test('several hosts are kept, and an address without a password is unchanged', () => {
  const many = argumentsOf('postgresql://ada:pw@one,two:5433/halcyon?target_session_attrs=primary');
  assert.equal(many.name, 'postgresql://ada@one,two:5433/halcyon?target_session_attrs=primary');
  for (const url of ['postgres:///halcyon', 'postgres://ada@db.example/halcyon'])
    assert.deepEqual(argumentsOf(url), { name: url, env: {} });
});
