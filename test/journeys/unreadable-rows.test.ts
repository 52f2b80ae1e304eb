/** Rows that the database cannot read, and rows that no request of Halcyon would write: each concerns its own webhook only. */
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

// Rows that the database cannot read

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

// Rows that no request would write

test('a store, headers and a token that would split a request or cannot be sent break only their own delivery', async () => {
  const receiver = await startReceiver();
  const engine = await startEngine();
  const webhookId = await engine.addWebhook(`${receiver.url}/hostile`);
  const headers = { 'X-Split': 'a\r\nX-Forged: 1', 'X-Name\r\nX-Forged': '1', 'X-Grün': 'grün', 'webhook-id': '1' };
  await engine.sql`
    update webhook set headers = ${engine.sql.json({ ...headers, 'X-Team': 'Ops', Host: 'evil.test' })}
    where id = ${webhookId}`;
  await engine.sql`update store set domain = ${'a.test\r\nX-Forged: 1 \u{1f600}'} where id = ${engine.storeId}`;
  const unsendable = await engine.addWebhook(`${receiver.url}/token`);
  await engine.sql`update webhook set format = 'partner_sitebuilder' where id = ${unsendable}`;

  const worker = await engine.startWorker();
  await engine.publish([1], worker);
  await receiver.until(1);
  // An internal fault: the endpoint is charged no attempt.
  await until(
    () => engine.sql<{ attempts: number }[]>`
      select attempts from delivery where webhook_id = ${unsendable} and faults > 0`,
    (rows) => rows.length === 1 && rows[0]?.attempts === 0,
  );
  await engine.publish([2], worker);
  await receiver.until(2);
  for (const got of receiver.got) {
    assert.equal(got.path, '/hostile');
    assert.equal(got.headers['x-team'], 'Ops');
    assert.equal(got.headers['service-store-domain'], 'a.test%0D%0AX-Forged: 1 %F0%9F%98%80');
    assert.match(String(got.headers['webhook-id']), /^msg_/);
    assert.equal(got.headers.host, new URL(receiver.url).host);
    for (const name of ['x-forged', 'x-split', 'x-grün']) assert.equal(got.headers[name], undefined);
  }
});
