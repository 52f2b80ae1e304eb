import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../../../test/setup/engine.ts';
import { purgeStates } from './record-sql.ts';

test('what was noted of webhooks that are gone goes, as many as asked for, and nothing of those that stay', async () => {
  const { sql, addWebhook } = await startEngine();
  const url = 'https://example.com/';
  const [stays, ...gone] = [await addWebhook(url), await addWebhook(url), await addWebhook(url)] as const;
  await sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures) select shard, id, 0, 0 from webhook`;
  await sql`delete from webhook where id = any (${gone})`;
  assert.equal(await purgeStates(sql, 1), 1);
  assert.equal(await purgeStates(sql, 5), 1);
  const left = await sql<{ id: number }[]>`select webhook_id as id from webhook_state`;
  assert.deepEqual(
    left.map(({ id }) => id),
    [stays],
  );
});
