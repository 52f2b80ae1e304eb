/** Workers are notified of each change to a webhook, with its commit, whichever process answered the request. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { listenForChanges } from '#delivery/announce.ts';
import { startTestApp } from '../setup/app.ts';
import { until } from '../setup/until.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

const { api, sql, storeId, platformToken } = await startTestApp({ roles: ['serve'] });

async function create(): Promise<number> {
  const made = await api('POST', `/stores/${storeId}/webhooks`, {
    body: { name: 'Hook', format: 'json', encryption_key: 'k'.repeat(32), url: 'https://hooks.example.com/' },
  });
  assert.equal(made.status, 201, await made.clone().text());
  return ((await made.json()) as { id: number }).id;
}

test('workers are notified of a changed url before the retry of what is pending, so that nothing more goes to the old one', async (t) => {
  const notified: string[] = [];
  const listening = await listenForChanges(
    sql,
    {
      onWork: () => {},
      onWebhook: () => void notified.push('webhook'),
      onRetry: () => void notified.push('retry'),
      onEvents: () => {},
      onMissed: () => assert.fail('the connection was not lost'),
    },
    { silenceMs: 60_000, pace: NEVER_QUIET },
  );
  t.after(() => listening.stop());
  const id = await create();
  const changed = await api('PATCH', `/webhooks/${id}`, { body: { url: 'https://hooks.example.com/new' } });
  assert.equal(changed.status, 200);
  await until(
    async () => notified,
    ({ length }) => length === 2,
  );
  assert.deepEqual(notified, ['webhook', 'retry']);
  assert.equal((await api('DELETE', `/webhooks/${id}`)).status, 204);
});

test('each change of a webhook, its deletion, and a new domain or the deletion of its store is notified once', async () => {
  const notified: number[] = [];
  const changes = await listenForChanges(
    sql,
    {
      onWork: () => {},
      onWebhook: ({ webhookId }) => void notified.push(webhookId),
      onRetry: () => {},
      onEvents: () => {},
      onMissed: () => assert.fail('the connection was not lost'),
    },
    { silenceMs: 60_000, pace: NEVER_QUIET },
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
