/** A computer that was suspended for days resumes: the partitions of its day are missing until the next check. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const DAY_MS = 86_400_000;

const fixture = await openPublishFixture(['serve', 'deliver']);
const { app, sql, storeId } = fixture;
const receiver = await startReceiver();

test('the first publish of a day without partitions creates them, and is delivered', async () => {
  const hook = { name: 'w', format: 'json', encryption_key: 'k', url: receiver.url, event_resource: 'transaction' };
  assert.equal((await app.api('POST', `/stores/${storeId}/webhooks`, { body: hook })).status, 201);
  // Further than partitions are created ahead, and beyond the lifetime of each token.
  await sql`update access_token set date_expires = date_expires + interval '30 days'`;
  app.clock.advance(6 * DAY_MS);
  const { status, text } = await fixture.publish(app.baseUrl, { event: 'transaction/created', resource: { id: 1 } });
  assert.equal(status, 201, text);
  const ended = () => sql`select from delivery_done where state = 'successful'`;
  await until(ended, (rows) => rows.length === 1);
  app.clock.advance(6 * DAY_MS);
  const renamed = await app.api('PATCH', `/stores/${storeId}`, { body: { name: 'Resumed' } });
  assert.equal(renamed.status, 200, await renamed.text());
});
