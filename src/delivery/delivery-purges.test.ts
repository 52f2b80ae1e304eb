import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../../test/setup/engine.ts';
import { createDeliveryPurges } from './delivery-purges.ts';

test('the state of deleted webhooks is purged, up to the limit, and that of existing ones stays', async () => {
  const { sql, addWebhook } = await startEngine();
  const url = 'https://example.com/';
  const [stays, ...gone] = [await addWebhook(url), await addWebhook(url), await addWebhook(url)] as const;
  await sql`insert into webhook_state (shard, webhook_id, epoch, consecutive_failures) select shard, id, 0, 0 from webhook`;
  await sql`delete from webhook where id = any (${gone})`;
  const [states] = createDeliveryPurges({ sql, hoursKeptDays: 7 });
  assert.equal(await states?.purge(1, new Date()), 1);
  assert.equal(await states?.purge(5, new Date()), 1);
  const left = await sql<{ id: number }[]>`select webhook_id as id from webhook_state`;
  assert.deepEqual(
    left.map(({ id }) => id),
    [stays],
  );
});

test('the order of deliveries that have ended is purged, up to the limit, and that of pending ones stays', async () => {
  const { sql, addWebhook, publish } = await startEngine();
  await addWebhook('https://example.com/', { isOrdered: true });
  await publish([1, 1, 2]);
  const ids = (await sql<{ id: number }[]>`select id from delivery order by id`).map(({ id }) => id);
  await sql`delete from delivery where id <> ${ids[1] ?? 0}`;
  const order = createDeliveryPurges({ sql, hoursKeptDays: 7 }).find(({ name }) => name === 'delivery_order');
  assert.equal(await order?.purge(1, new Date()), 1);
  assert.equal(await order?.purge(5, new Date()), 1);
  const left = await sql<{ id: number; version: number }[]>`select delivery_id as id, version from delivery_order`;
  assert.deepEqual([...left], [{ id: ids[1], version: 2 }]);
});
