/** Rows that no request of Halcyon would write: whatever they contain, a delivery has well-formed headers and the worker continues. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

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
