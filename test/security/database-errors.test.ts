/** What the database refuses was published or typed by somebody: the log says what went wrong, and never with what. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { createLog } from '#core/log.ts';
import { emptyDatabase } from '../setup/database.ts';

const { sql } = await emptyDatabase();
await sql`create table told (name text primary key check (name <> 'customer-4711-refused'), n int not null)`;
await sql`insert into told values ('customer-4711-twice', 1)`;

const GIVEN = 'customer-4711';
const refusals = {
  'a value that cannot be read (22P02)': sql`select ${`${GIVEN}\n    at home`}::text::int`,
  'an array that cannot be read (22P02)': sql`select ${`${GIVEN}-array`}::text::text[]`,
  'a key that is there (23505)': sql`insert into told values (${`${GIVEN}-twice`}, 1)`,
  'a check (23514)': sql`insert into told values (${`${GIVEN}-refused`}, 1)`,
  'a missing value (23502)': sql`insert into told values (${`${GIVEN}-none`}, null)`,
};

for (const [what, statement] of Object.entries(refusals)) {
  test(`the log of an error of the database does not repeat what it was given: ${what}`, async () => {
    const lines: string[] = [];
    const log = createLog('error', { write: (line) => void lines.push(line) });
    const error: unknown = await statement.then(
      () => assert.fail('it was not refused'),
      (reason: unknown) => reason,
    );
    assert.ok(inspect(error).includes(GIVEN), 'the error itself has it');
    log.error({ err: error }, 'a refusal');
    const line = lines.join('');
    assert.ok(!line.includes(GIVEN), line);
    const { err } = JSON.parse(line) as { err: Record<string, string> };
    assert.equal(err['code'], /\((\w+)\)$/.exec(what)?.[1]);
    assert.match(err['routine'] ?? '', /^\w+$/);
    assert.match(err['stack'] ?? '', /^at .*\n\s+at /);
  });
}
