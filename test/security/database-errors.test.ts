/** Values that the database rejects are published or typed by users: the log has the error without the values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { createLog } from '#core/log.ts';
import { emptyDatabase } from '../setup/database.ts';

const { sql } = await emptyDatabase();
await sql`create table entries_of_test (name text primary key check (name <> 'customer-4711-refused'), n int not null)`;
await sql`insert into entries_of_test values ('customer-4711-twice', 1)`;

const GIVEN = 'customer-4711';
const refusals = {
  'a value that cannot be read (22P02)': sql`select ${`${GIVEN}\n    at home`}::text::int`,
  'an array that cannot be read (22P02)': sql`select ${`${GIVEN}-array`}::text::text[]`,
  'a duplicate key (23505)': sql`insert into entries_of_test values (${`${GIVEN}-twice`}, 1)`,
  'a check (23514)': sql`insert into entries_of_test values (${`${GIVEN}-refused`}, 1)`,
  'a missing value (23502)': sql`insert into entries_of_test values (${`${GIVEN}-none`}, null)`,
};

for (const [what, statement] of Object.entries(refusals)) {
  test(`the log of a database error does not contain the given values: ${what}`, async () => {
    const lines: string[] = [];
    const log = createLog('error', { write: (line) => void lines.push(line) });
    const error: unknown = await statement.then(
      () => assert.fail('it was accepted'),
      (reason: unknown) => reason,
    );
    assert.ok(inspect(error).includes(GIVEN), 'the error itself has it');
    log.error({ err: error }, 'a refusal');
    const line = lines.join('');
    assert.ok(!line.includes(GIVEN), line);
    const { err } = JSON.parse(line) as { err: Record<string, string> };
    assert.equal(err['code'], /\((\w+)\)$/.exec(what)?.[1]);
    assert.match(err['routine'] ?? '', /^\w+$/);
    if (err['code'] === '23505') assert.equal(err['constraint_name'], 'entries_of_test_pkey');
    assert.match(err['stack'] ?? '', /^at .*\n\s+at /);
  });
}
