/** A row that the database cannot read blocks its own webhook and no other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const SOUND = 5;

/** Fails for one row, as a damaged page does. */
const DAMAGED = `create function damaged(id bigint, bad bigint) returns boolean language plpgsql immutable as
  $$ begin if id = bad then raise exception 'invalid page' using errcode = 'XX001'; end if; return true; end $$`;

test('one event that cannot be read delays no other webhook of its shard', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  // The first is fetched alone, and all others together.
  await engine.addWebhook(`${receiver.url}/first`);
  const id = await engine.addWebhook(`${receiver.url}/damaged`);
  await engine.publish([1]);
  const [row] = await sql<{ eventId: number }[]>`select event_id as "eventId" from delivery where webhook_id = ${id}`;
  for (let n = 0; n < SOUND; n += 1) await engine.addWebhook(`${receiver.url}/${n}`);
  await engine.publish([2]);
  await sql.unsafe(DAMAGED);
  await sql.unsafe('alter table event rename to event_sound');
  await sql.unsafe(`create view event as select * from event_sound where damaged(id, ${row?.eventId})`);
  await engine.startWorker();
  // The other event of its own webhook, too.
  await until(
    async () => receiver.got.length,
    (count) => count >= SOUND + 2,
  );
  assert.equal(new Set(receiver.got.map(({ path }) => path)).size, SOUND + 2);
});

test('one webhook that cannot be read delays no other of its shard', async () => {
  const again: unknown[] = [];
  const write = (line: string): void => {
    const { webhooks } = JSON.parse(line) as { webhooks?: number[] };
    if (webhooks !== undefined) again.push(...webhooks);
  };
  const engine = await startEngine({ log: createLog('warn', { write }) });
  const { sql } = engine;
  const receiver = await startReceiver();
  // The first is fetched alone, and all others together.
  await engine.addWebhook(`${receiver.url}/first`);
  const id = await engine.addWebhook(`${receiver.url}/damaged`);
  for (let n = 0; n < SOUND; n += 1) await engine.addWebhook(`${receiver.url}/${n}`);
  await engine.publish([1]);
  await sql.unsafe(DAMAGED);
  await sql.unsafe('alter table webhook rename to webhook_sound');
  await sql.unsafe(`create view webhook as select * from webhook_sound where damaged(id, ${id})`);
  await engine.startWorker();
  await until(
    async () => receiver.got.length,
    (count) => count >= SOUND + 1,
  );
  assert.equal(new Set(receiver.got.map(({ path }) => path)).size, SOUND + 1);
  assert.deepEqual(new Set(again), new Set([id]), 'only the unreadable webhook is tried again');
});
