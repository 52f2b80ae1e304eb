import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { testDatabase } from './setup/database.ts';
import { dumpSchema, SCHEMA_FILE } from './setup/schema.ts';

test('migrations/schema.sql is the schema of the migrations (otherwise run npm run schema and commit the difference)', async (t) => {
  const { sql } = await testDatabase(t);
  assert.equal(await dumpSchema(sql), await readFile(SCHEMA_FILE, 'utf8'));
});

test('the dump contains a new column, default, constraint, index, sequence and option', async (t) => {
  const { sql } = await testDatabase(t);
  const changes = [
    'alter table worker add column extra text',
    'alter table worker alter column beat set default 0',
    'alter table worker alter column beat drop not null',
    'alter table worker add constraint beats check (beat >= 0)',
    'create index worker_beat on worker (beat)',
    'create sequence another',
    'alter table worker set (fillfactor = 50)',
    'create table more ()',
  ];
  let before = await dumpSchema(sql);
  for (const change of changes) {
    await sql.unsafe(change);
    const after = await dumpSchema(sql);
    assert.notEqual(after, before, change);
    before = after;
  }
});
