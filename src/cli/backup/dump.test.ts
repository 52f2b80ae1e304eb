import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectionOf } from './dump.ts';

const argumentsOf = (url: string) => connectionOf({ kind: 'url', url });

test('the password goes into the environment, which other users of the machine cannot read', () => {
  const { name, env } = argumentsOf('postgres://ada:s%40cret@db.example:5433/halcyon?sslmode=require');
  assert.equal(name, 'postgres://ada@db.example:5433/halcyon?sslmode=require');
  assert.deepEqual(env, { PGPASSWORD: 's@cret' });
});

test('a password in the query, or with characters that are usually encoded, is taken out as well', () => {
  const all = {
    'postgres://db.example/halcyon?user=ada&password=s%26cret&sslmode=require':
      'postgres://db.example/halcyon?user=ada&sslmode=require',
    'postgres://db.example/halcyon?password=s%26cret': 'postgres://db.example/halcyon?',
    'postgres://ada@azure:s%26cret@db.example/halcyon': 'postgres://ada@azure@db.example/halcyon',
    'postgres://ada:s&cret@/halcyon': 'postgres://ada@/halcyon',
  };
  for (const [url, name] of Object.entries(all))
    assert.deepEqual(argumentsOf(url), { name, env: { PGPASSWORD: 's&cret' } });
});

test('several hosts are kept, and an address without a password is unchanged', () => {
  const many = argumentsOf('postgresql://ada:pw@one:5432,two:5433/halcyon?target_session_attrs=primary');
  assert.equal(many.name, 'postgresql://ada@one:5432,two:5433/halcyon?target_session_attrs=primary');
  for (const url of ['postgres:///halcyon', 'postgres://ada@db.example/halcyon'])
    assert.deepEqual(argumentsOf(url), { name: url, env: {} });
});
