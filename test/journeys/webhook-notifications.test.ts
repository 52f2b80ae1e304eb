/** Workers are notified of each change to a webhook, with its commit, whichever process answered the request. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { listenForChanges } from '#delivery/announce.ts';
import { startTestApp } from '../setup/app.ts';
import { until } from '../setup/until.ts';

const { api, sql, storeId, platformToken } = await startTestApp({ roles: ['serve'] });

async function create(): Promise<number> {
  const made = await api('POST', `/stores/${storeId}/webhooks`, {
    body: { name: 'Hook', format: 'json', encryption_key: 'k'.repeat(32), url: 'https://hooks.example.com/' },
  });
  assert.equal(made.status, 201, await made.clone().text());
  return ((await made.json()) as { id: number }).id;
}

test('each change of a webhook, its deletion, and a new domain or the deletion of its store is notified once', async () => {
  const notified: number[] = [];
  const changes = await listenForChanges(
    sql,
    {
      onWork: () => {},
      onWebhook: ({ webhookId }) => void notified.push(webhookId),
      onEvents: () => {},
      onMissed: () => assert.fail('the connection was not lost'),
    },
    60_000,
  );
  after(() => changes.stop());
  const [one, other] = [await create(), await create()];
  const expected: number[] = [];
  const notifies = async (status: number, ids: number[], ...request: Parameters<typeof api>) => {
    assert.equal((await api(...request)).status, status);
    expected.push(...ids);
    await until(
      async () => notified,
      ({ length }) => length >= expected.length,
    );
    assert.deepEqual(notified, expected);
  };
  await notifies(400, [], 'PATCH', `/webhooks/${one}`, { body: { rate_per_second: 'many' } });
  await notifies(200, [one], 'PATCH', `/webhooks/${one}`, { body: { is_active: false } });
  await notifies(200, [one, other], 'PATCH', `/stores/${storeId}`, { body: { domain: 'moved.example.com' } });
  await notifies(204, [one], 'DELETE', `/webhooks/${one}`);
  await notifies(204, [other], 'DELETE', `/stores/${storeId}`, { token: platformToken });
});
