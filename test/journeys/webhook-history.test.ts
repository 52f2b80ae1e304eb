/** The deliveries and attempts of a webhook, from rows as publish and the delivery module write them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHistory } from '../setup/history.ts';
import { BASE_URL, faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();
const shard = a % 256;
const now = new Date();

const create = async () =>
  Number(
    (
      await call('POST', `/stores/${a}/webhooks`, {
        body: { ...minimal, url: 'https://example.com', event_resource: 'customer' },
      })
    ).body['id'],
  );
const [webhook, other] = [await create(), await create()];

const { id, event, pending, ended, attempt } = createHistory(sql, { storeId: a, webhook });

for (const n of [1, 2, 3, 4]) await event(n);
await ended(1, 'successful');
await pending(2);
await ended(3, 'failed');
await pending(4);
await pending(5);
await pending(6, { of: other });
await attempt(1, 1, 500);
await attempt(1, 2, 200);
await attempt(3, 1, null);

async function list(part: 'statuses' | 'logs', query = '') {
  const { status, body } = await call('GET', `/webhooks/${webhook}/${part}${query}`);
  assert.equal(status, 200);
  return { body, items: body._embedded[`svc:${part}`] ?? [] };
}

test('deliveries are listed newest first, pending and completed ones together', async () => {
  const { body, items } = await list('statuses');
  assert.deepEqual(
    items.map((item) => [item['id'], item['status']]),
    [
      [id(5), 'pending'],
      [id(4), 'pending'],
      [id(3), 'failed'],
      [id(2), 'pending'],
      [id(1), 'successful'],
    ],
  );
  assert.equal(body['total_items'], '5');
  assert.equal(body._links['svc:webhook']?.href, `${BASE_URL}/webhooks/${webhook}`);
});

test("a delivery shows its event, its dates in the store's zone, and links to it", async () => {
  const { items } = await list('statuses', '?offset=3&limit=1');
  const { _links: links, ...properties } = items[0] ?? {};
  assert.deepEqual(properties, {
    id: id(2),
    resource_type: 'transaction',
    resource_id: 'T 2',
    webhook_id: webhook,
    event: 'transaction/created',
    status: 'pending',
    reason: null,
    attempts: 1,
    response_code: null,
    date_next: '2026-07-01T12:00:32+0200',
    date_created: '2026-07-01T12:00:02+0200',
    date_ended: null,
    resent_as: null,
  });
  assert.equal(links?.['svc:resource']?.href, `${BASE_URL}/stores/${a}/transactions/T%202`);
  assert.equal(links?.['svc:event']?.href, `${BASE_URL}/stores/${a}/events/${id(2)}`);
});

test('a delivery whose event retention has dropped is still listed', async () => {
  const { items } = await list('statuses', '?limit=1');
  const [first] = items;
  assert.deepEqual([first?.['resource_type'], first?.['event'], first?.['date_created']], [null, null, null]);
  assert.deepEqual(Object.keys(first?._links ?? {}), ['curies', 'self', 'svc:webhook']);
});

test('attempts are listed newest first with their responses', async () => {
  const { body, items } = await list('logs');
  assert.deepEqual(
    items.map((item) => item['id']),
    [`${id(3)}-1`, `${id(1)}-2`, `${id(1)}-1`],
  );
  assert.equal(body['total_items'], '3');
  const { _links, ...properties } = items[1] ?? {};
  assert.deepEqual(properties, {
    id: `${id(1)}-2`,
    resource_type: 'transaction',
    resource_id: 'T 1',
    webhook_id: webhook,
    event: 'transaction/created',
    attempt: 2,
    response_code: 200,
    response_body: 'hello',
    response_headers: 'content-type: text/plain',
    duration: 120,
    outcome: 'delivered',
    reason: null,
    date_created: '2026-07-01T12:00:04+0200',
  });
  assert.deepEqual([items[0]?.['response_code'], items[0]?.['response_body']], [null, null]);
  assert.match(String(items[2]?.['reason']), /^Your endpoint answered 500: /);
});

test('both are paged like every collection', async () => {
  for (const part of ['statuses', 'logs'] as const) {
    const ids: unknown[] = [];
    for (let page = `/webhooks/${webhook}/${part}?limit=2`; ;) {
      const { body } = await call('GET', page);
      ids.push(...(body._embedded[`svc:${part}`] ?? []).map((item) => item['id']));
      const next = body._links['next']?.href ?? '';
      if (next === body._links['self']?.href) break;
      page = next;
    }
    const { items } = await list(part);
    assert.deepEqual(
      ids,
      items.map((item) => item['id']),
    );
    const reply = await call('GET', `/webhooks/${webhook}/${part}?colour=red`);
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, 'colour unknown_parameter']);
  }
});

test('the next attempt of a delivery is never before the pause or the probe of its webhook, also in a filter', async () => {
  const holdUntil = (paused: Date | null, probe: Date | null) => sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until, probe_at)
    values (${shard}, ${webhook}, 0, 5, ${now}, ${paused}, ${probe})
    on conflict (shard, webhook_id) do update set paused_until = excluded.paused_until, probe_at = excluded.probe_at`;
  const nexts = async (query = '?status=pending') =>
    (await list('statuses', query)).items.map((item) => item['date_next']);
  // They are due 32, 34 and 35 seconds after ten.
  const at = (seconds: number) => new Date(Date.UTC(2026, 6, 1, 10, 0, seconds));
  const dateAt = (seconds: number) => `2026-07-01T12:00:${seconds}+0200`;
  await holdUntil(at(34), at(33));
  assert.deepEqual(await nexts(), [dateAt(35), dateAt(34), dateAt(34)]);
  await holdUntil(null, at(59));
  assert.deepEqual(await nexts(), [dateAt(59), dateAt(59), dateAt(59)]);
  const waits = async () => (await call('GET', `/webhooks/${webhook}/statuses/${id(4)}`)).body['waits_for'];
  assert.match(String(await waits()), / after 5 consecutive failures, .* Last failure: \w+/);
  await holdUntil(at(59), at(33));
  assert.match(String(await waits()), / pause /);
  assert.equal((await nexts('?date_next=2026-07-01T10:00:59Z')).length, 3);
  assert.deepEqual(await nexts('?date_next:lessthan=2026-07-01T10:00:59Z'), []);
});

test('after a disable, and after the enable that follows, earlier pending deliveries read as failed', async () => {
  for (const is_active of [0, 1]) {
    await call('PATCH', `/webhooks/${webhook}`, { body: { is_active } });
    const { items } = await list('statuses');
    assert.deepEqual(
      items.map((item) => [item['status'], item['date_next']]),
      ['failed', 'failed', 'failed', 'failed', 'successful'].map((status) => [status, null]),
    );
  }
});

const setState = (failures: number, paused: Date | null) => sql`
  insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until)
  values (${shard}, ${other}, 0, ${failures}, ${failures === 0 ? null : now}, ${paused})
  on conflict (shard, webhook_id) do update set consecutive_failures = excluded.consecutive_failures,
    first_failure_at = excluded.first_failure_at, paused_until = excluded.paused_until`;
const stateNow = async () => (await call('GET', `/webhooks/${other}`)).body['state'];

test('a webhook shows its current state, by the present time', async () => {
  const states = [await stateNow()];
  await setState(3, null);
  states.push(await stateNow());
  await setState(3, new Date('2026-07-01T10:00:01Z'));
  states.push(await stateNow());
  await setState(0, new Date('2026-07-01T09:59:59Z'));
  states.push(await stateNow());
  assert.deepEqual(states, ['ok', 'failing', 'paused', 'ok']);
});

test('the history of another store is not found', async () => {
  for (const part of ['statuses', 'logs']) {
    const reply = await call('GET', `/webhooks/${webhook}/${part}`, { token: 'b' });
    assert.equal(reply.status, 404);
  }
});
