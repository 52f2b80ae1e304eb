import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { OPERATOR } from '#changelog/changelog.ts';
import { migrate } from '#db/migrate.ts';
import { transaction } from '#db/pool.ts';
import { createStoreWithEntry } from '#stores/audited-changes.ts';
import { readConfig } from '#config/config.ts';
import { emptyDatabase } from '../../test/setup/database.ts';
import { openInternalEvents } from '#server/publishing.ts';

test('a command writes its audit entries into a database where no server ever ran', async (t) => {
  const { sql } = await emptyDatabase(t);
  await migrate(sql, join(import.meta.dirname, '../../migrations'));
  const by = { changelog: openInternalEvents(readConfig({}, '/')).changelog, actor: OPERATOR, now: new Date() };
  const shop = { name: 'First', domain: 'first.example.com', email: 'first@example.com', timeZone: 'UTC' };
  const { id } = await transaction(sql, (tx) => createStoreWithEntry(tx, shop, by));
  const entries = await sql`select store_id as "storeId" from event where resource_type = 'changelog'`;
  assert.deepEqual([...entries], [{ storeId: id }]);
});
