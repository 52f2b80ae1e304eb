/**
 * Dumps the schema of a database as text, to compare it with migrations/schema.sql. Run as a program (`npm run schema`) it
 * rewrites that file.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeSchema } from '#db/migrate.ts';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { globalSetup, globalTeardown } from './global.ts';
import { TEMPLATE } from './database.ts';

export const SCHEMA_FILE = join(import.meta.dirname, '../../migrations/schema.sql');

const HEAD = `-- What all migrations together make: written by "npm run schema", compared by test/schema.test.ts. Never edited by hand.
-- Day partitions are left out.
`;

/** Returns the schema as text. */
export async function dumpSchema(sql: Sql): Promise<string> {
  return `${HEAD}\n${[...(await describeSchema(sql)).values()].map((text) => `${text}\n`).join('\n')}`;
}

if (import.meta.main) {
  await globalSetup();
  try {
    const server = JSON.parse(process.env['HALCYON_TEST_DATABASE'] ?? '') as Extract<
      DatabaseAddress,
      { kind: 'socket' }
    >;
    const sql = openPool({ ...server, database: TEMPLATE }, { connections: 1, applicationName: 'schema' });
    await writeFile(SCHEMA_FILE, await dumpSchema(sql));
    await sql.end();
  } finally {
    await globalTeardown();
  }
}
