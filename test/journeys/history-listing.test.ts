/** The queries on statuses and logs: each list is composed of two tables and of the events beside them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOG_PROPERTIES, STATUS_PROPERTIES } from '#webhooks/history/history-documents.ts';
import { createHistory } from '../setup/history.ts';
import { faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();
const made = await call('POST', `/stores/${a}/webhooks`, { body: { ...minimal, url: 'https://example.com' } });
const webhook = Number(made.body['id']);
const { id, event, pending, ended, attempt } = createHistory(sql, { storeId: a, webhook });

for (const n of [1, 2, 3]) await event(n);
await event(4, { type: 'customer', resourceId: 'C_4', action: 'modified' });
await ended(1, 'successful');
await pending(2);
await ended(3, 'failed');
// Failed when its webhook was disabled, and waits to be swept.
await pending(4, { epoch: -1 });
// Retention has dropped its event.
await pending(5);
await attempt(1, 1, 500);
await attempt(1, 2, 200);
await attempt(3, 1, null);
await attempt(4, 1, 404);

const numbers = new Map<unknown, number>([1, 2, 3, 4, 5].map((n) => [id(n), n]));

async function find(part: 'statuses' | 'logs', query: string) {
  const { status, body } = await call('GET', `/webhooks/${webhook}/${part}?${query}`);
  assert.equal(status, 200, query);
  return { body, items: body._embedded[`svc:${part}`] ?? [] };
}

const statuses: [string, number[]][] = [
  ['status=failed', [4, 3]],
  ['status=pending', [5, 2]],
  ['status=successful', [1]],
  ['status:not=failed', [5, 2, 1]],
  ['status=*ed', [4, 3]],
  ['attempts=1', [5, 4, 2]],
  ['attempts:greaterthan=1', [3, 1]],
  ['resource_type=customer', [4]],
  ['resource_type:not=customer', [5, 3, 2, 1]],
  ['resource_type=', [5]],
  ['resource_id=T 2', [2]],
  ['resource_id=c_*', [4]],
  ['event=transaction/created', [3, 2, 1]],
  ['event=*/modified', [4]],
  ['event=', [5]],
  [`webhook_id=${webhook}`, [5, 4, 3, 2, 1]],
  ['webhook_id=1', []],
  [`id=${id(3)}`, [3]],
  [`id:greaterthan=${id(3)}`, [5, 4]],
  ['date_created:lessthan=2026-07-01T10:00:03Z', [2, 1]],
  ['date_created=2026-07-01T12:00:03+0200', [3]],
  ['date_next:not=', [5, 2]],
  ['date_next=2026-07-01T10:00:35Z', [5]],
  ['date_ended=', [5, 4, 2]],
  ['date_ended:greaterthan=2026-07-01T10:00:02Z', [3]],
  ['status=failed&event=transaction/created&attempts:greaterthan=1', [3]],
  ['order=id', [1, 2, 3, 4, 5]],
  ['order=status', [3, 4, 2, 5, 1]],
  ['order=status,id desc', [4, 3, 5, 2, 1]],
  ['order=status desc', [1, 5, 2, 4, 3]],
  ['order=attempts desc,date_created', [1, 3, 2, 4, 5]],
  ['order=resource_type,resource_id desc', [4, 3, 2, 1, 5]],
  ['order=date_ended', [1, 3, 2, 4, 5]],
  ['order=date_next desc', [4, 3, 1, 5, 2]],
  ['status=failed&order=date_created', [3, 4]],
];
for (const [query, expected] of statuses) {
  test(`statuses: ${query.replace(/\d{9,}/g, 'an id')} finds the matching ones and counts them`, async () => {
    const { body, items } = await find('statuses', query);
    assert.deepEqual(
      [items.map((item) => numbers.get(item['id'])), body['total_items']],
      [expected, String(expected.length)],
    );
  });
}

const [first, second, third, fourth] = [`${id(1)}-1`, `${id(1)}-2`, `${id(3)}-1`, `${id(4)}-1`];
const logs: [string, string[]][] = [
  ['response_code=500', [first]],
  ['response_code:lessthan=500', [fourth, second]],
  ['response_code=', [third]],
  ['outcome=timed_out:answer', [third]],
  ['outcome:not=timed_out:answer', [fourth, second, first]],
  ['attempt=2', [second]],
  ['duration:greaterthan=119.5', [fourth, third, second, first]],
  ['duration:lessthan=120', []],
  ['resource_id=T 1', [second, first]],
  ['resource_type=customer', [fourth]],
  ['event=transaction/*', [third, second, first]],
  [`id=${second}`, [second]],
  [`id=${id(1)}-*`, [second, first]],
  ['date_created:greaterthan=2026-07-01T10:00:03Z', [fourth, third, second]],
  ['date_created:greaterthan=9999-12-31T23:59:59Z', []],
  ['date_created=2026-07-01T12:00:04+0200', [second]],
  ['response_code:not=200&event=transaction/created', [third, first]],
  ['order=id', [first, second, third, fourth]],
  ['order=date_created', [first, second, third, fourth]],
  ['order=response_code', [second, fourth, first, third]],
  ['order=event,response_code', [fourth, second, first, third]],
  ['order=outcome desc', [third, fourth, first, second]],
];
for (const [query, expected] of logs) {
  test(`logs: ${query.replace(/\d{9,}/g, 'an id')} finds the matching ones and counts them`, async () => {
    const { body, items } = await find('logs', query);
    assert.deepEqual([items.map((item) => item['id']), body['total_items']], [expected, String(expected.length)]);
  });
}

test('each page of one status continues after the one before', async () => {
  const met: unknown[] = [];
  for (let at = 'status=pending&limit=1'; ;) {
    const { body, items } = await find('statuses', at);
    met.push(...items.map((item) => numbers.get(item['id'])));
    const next = new URL(body._links['next']?.href ?? '').search.slice(1);
    if (next === new URL(body._links['self']?.href ?? '').search.slice(1)) break;
    at = next;
  }
  assert.deepEqual(met, [5, 2]);
});

const collections = [
  { part: 'statuses', properties: STATUS_PROPERTIES },
  { part: 'logs', properties: LOG_PROPERTIES },
] as const;
const samples = { text: 'x', filterOnly: 'x', number: '7', date: '2026-11-20' };
for (const { part, properties } of collections) {
  test(`${part} can be filtered and ordered by every property of an item except response data`, async () => {
    const [item] = (await find(part, '')).items;
    const { _links, ...shown } = item ?? {};
    const declared = Object.entries(properties).filter(([, comparison]) => comparison !== 'filterOnly');
    assert.deepEqual(
      declared.map(([name]) => name),
      Object.keys(shown),
    );
    for (const [name, comparison] of Object.entries(properties)) {
      const sample = comparison === 'none' ? 'x' : samples[comparison];
      for (const query of [`order=${name} desc`, `${name}=${sample}`, `${name}:not=${sample}`, `${name}=`]) {
        const { status } = await call('GET', `/webhooks/${webhook}/${part}?${query}`);
        const isRefused = comparison === 'none' || (comparison === 'filterOnly' && query.startsWith('order'));
        assert.equal(status, isRefused ? 400 : 200, query);
      }
    }
  });
}

test('a property that is only filtered by is refused as an order, and not offered for it', async () => {
  const { status, body } = await call('GET', `/webhooks/${webhook}/statuses?order=response_body`);
  assert.equal(status, 400);
  const [fault] = body._embedded['svc:errors'] ?? [];
  assert.match(String(fault?.['message']), /^response_body cannot be used to sort; possible: (?!.*response_body)/);
});

test('all errors of a query are reported at once', async () => {
  const reply = await call(
    'GET',
    `/webhooks/${webhook}/logs?response_body=*secret*&status=failed&response_code=ok&zoom=event`,
  );
  assert.deepEqual(
    [reply.status, ...faultsIn(reply)],
    [
      400,
      'response_body invalid_parameter',
      'status unknown_parameter',
      'response_code invalid_parameter',
      'zoom unknown_parameter',
    ],
  );
});
