/** Whoever sends hears of each change to a webhook, with its commit, wherever the request was answered. */
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

test('a change of a webhook, its end, and a new domain or the end of its store are told of once each', async () => {
  const heard: number[] = [];
  const news = await listenForChanges(
    sql,
    {
      onWork: () => {},
      onWebhook: ({ webhookId }) => void heard.push(webhookId),
      onEvents: () => {},
      onMissed: () => assert.fail('the line held'),
    },
    60_000,
  );
  after(() => news.stop());
  const [one, other] = [await create(), await create()];
  const expected: number[] = [];
  const tells = async (status: number, ids: number[], ...request: Parameters<typeof api>) => {
    assert.equal((await api(...request)).status, status);
    expected.push(...ids);
    await until(
      async () => heard,
      ({ length }) => length >= expected.length,
    );
    assert.deepEqual(heard, expected);
  };
  await tells(400, [], 'PATCH', `/webhooks/${one}`, { body: { rate_per_second: 'many' } });
  await tells(200, [one], 'PATCH', `/webhooks/${one}`, { body: { is_active: false } });
  await tells(200, [one, other], 'PATCH', `/stores/${storeId}`, { body: { domain: 'moved.example.com' } });
  await tells(204, [one], 'DELETE', `/webhooks/${one}`);
  await tells(204, [other], 'DELETE', `/stores/${storeId}`, { token: platformToken });
});
