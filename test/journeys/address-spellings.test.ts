/** Migration 0035 gives the addresses of accounts one spelling, also where two accounts had spellings of one address. */
import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { MIGRATIONS, migrate } from '#db/migrate.ts';
import { emptyDatabase } from '../setup/database.ts';

test('addresses get one spelling, and of two accounts with one address the one that has it already keeps it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-migrations-'));
  t.after(() => rm(folder, { recursive: true }));
  const older = (await readdir(MIGRATIONS)).filter(
    (name) => name.endsWith('.sql') && name < '0035' && /^\d/.test(name),
  );
  await Promise.all(older.map((name) => copyFile(join(MIGRATIONS, name), join(folder, name))));
  const { sql } = await emptyDatabase(t);
  await migrate(sql, folder);
  const users: readonly (readonly [id: number, before: string, isVerified: boolean, after: string])[] = [
    [1, 'Ada@Example.com', true, 'ada@example.com'],
    [2, 'bob@y。example', true, 'bob@y。example'],
    [3, 'Bob@y.example', false, 'bob@y.example'],
    [4, 'eve@z。example', false, 'eve@z。example'],
    [5, 'eve@ｚ.example', true, 'eve@z.example'],
    [6, 'eve@z．example', true, 'eve@z．example'],
    [7, 'zoe@exam\u00ADple.com', true, 'zoe@example.com'],
  ];
  for (const [id, email, isVerified] of users)
    await sql`
      insert into users (id, email, password_hash, is_email_verified, date_created)
      values (${id}, ${email}, '-', ${isVerified}, now())`;
  await migrate(sql, MIGRATIONS);
  const rows = await sql<{ id: number; email: string }[]>`select id, email from users order by id`;
  assert.deepEqual(
    rows.map(({ id, email }) => [id, email]),
    users.map(([id, , , after]) => [id, after]),
  );
});
