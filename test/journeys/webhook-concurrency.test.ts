/** Concurrent requests: the limit of a store is exact, and no change is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a, b } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;

test('of 20 concurrent creates on a store with 90 webhooks, 10 succeed and 10 report the limit', async () => {
  for (let i = 0; i < 90; i += 1) await call('POST', path, { body: minimal });
  const replies = await Promise.all(Array.from({ length: 20 }, () => call('POST', path, { body: minimal })));
  const refused = replies.filter(({ status }) => status === 409);
  assert.equal(replies.filter(({ status }) => status === 201).length, 10);
  assert.equal(refused.length, 10);
  for (const reply of refused) assert.deepEqual(faultsIn(reply), ['- limit_reached']);
  const [row] = await sql`select count(*) as total from webhook where store_id = ${a}`;
  assert.equal(row?.['total'], 100);
});

test('each store has its own limit, and a deleted webhook frees a place', async () => {
  assert.equal((await call('POST', `/stores/${b}/webhooks`, { token: 'b', body: minimal })).status, 201);
  assert.equal((await call('POST', path, { body: minimal })).status, 409);
  const { body } = await call('GET', `${path}?limit=1`);
  await call('DELETE', body._embedded['svc:webhooks']?.[0]?._links['self']?.href ?? '');
  assert.equal((await call('POST', path, { body: minimal })).status, 201);
});

test('concurrent changes of different properties all take effect, each counted', async () => {
  const { body } = await call('POST', `/stores/${b}/webhooks`, { token: 'b', body: minimal });
  const id = Number(body['id']);
  const changes: Record<string, unknown> = {
    name: 'Changed',
    url: 'https://example.com/changed',
    event_resource: 'customer',
    is_active: '0',
    headers: { 'X-A': 'b' },
    rate_per_second: 9,
    retry_profile: 'long',
    encryption_key: 'changed',
  };
  const replies = await Promise.all(
    Object.entries(changes).map(([name, value]) =>
      call('PATCH', `/webhooks/${id}`, { token: 'b', body: { [name]: value } }),
    ),
  );
  assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([200]));
  const { body: after } = await call('GET', `/webhooks/${id}`, { token: 'b' });
  assert.deepEqual(Object.fromEntries(Object.keys(changes).map((name) => [name, after[name]])), changes);
  const [row] = await sql`select revision, epoch from webhook where id = ${id}`;
  assert.deepEqual([row?.['revision'], row?.['epoch']], [1 + replies.length, 1]);
});

test('of several concurrent deletes one succeeds, and a concurrent change is complete or a 404', async () => {
  const { body } = await call('POST', `/stores/${b}/webhooks`, { token: 'b', body: minimal });
  const at = `/webhooks/${String(body['id'])}`;
  const [patch, ...deletes] = await Promise.all([
    call('PATCH', at, { token: 'b', body: { name: 'x' } }),
    ...Array.from({ length: 5 }, () => call('DELETE', at, { token: 'b' })),
  ]);
  assert.equal(deletes.filter(({ status }) => status === 204).length, 1);
  assert.equal(deletes.filter(({ status }) => status === 404).length, 4);
  assert.ok(patch.status === 200 || patch.status === 404, String(patch.status));
});
