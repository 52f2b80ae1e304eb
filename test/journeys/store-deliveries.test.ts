/** The deliveries of a store to all its webhooks, for programs and as a page. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { createFiller, filled } from '../setup/form-filler.ts';
import { createHistory } from '../setup/history.ts';
import type { Representation } from '../setup/webhook-api.ts';

const people = await startWithPeople();
const { alpha, store: token } = people;
const { show, formFor, send } = createFiller(people.origin, people.browser);
const DELIVERIES = `/stores/${alpha}/statuses`;

/** Creates a webhook by the page of the store, and returns its id and what writes its deliveries. */
async function open(name: string) {
  const path = `/stores/${alpha}/webhooks`;
  const made = await send(
    path,
    filled(await formFor(path, 'POST'), { name, format: 'json', event_resource: 'transaction' }),
  );
  const id = Number((made.headers.get('location') ?? '').split('?', 1)[0]?.split('/').at(-1));
  return { id, history: createHistory(people.sql, { storeId: alpha, webhook: id }) };
}
const [orders, stock] = [await open('Orders'), await open('Stock')];
for (const [n, resourceId] of ['T 1', 'T 1', 'T 2', 'T 3'].entries()) await orders.history.event(n, { resourceId });
await orders.history.ended(0, 'successful');
await stock.history.ended(1, 'failed');
await stock.history.pending(2);
await orders.history.ended(3, 'successful');

async function ask(query = '') {
  const response = await fetch(people.origin + DELIVERIES + query, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` },
  });
  const body = (await response.json()) as Representation;
  const rows = (body._embedded['svc:statuses'] ?? []).map(
    (row) => `${String(row['resource_id'])} ${String(row['webhook_id'])} ${String(row['status'])}`,
  );
  return { status: response.status, body, rows };
}

const of = (resource: string, { id }: { id: number }, status: string): string => `${resource} ${id} ${status}`;

test('the deliveries to all webhooks are listed together, newest first', async () => {
  const { status, body, rows } = await ask();
  assert.equal(status, 200);
  assert.equal(Number(body['total_items']), 4);
  assert.deepEqual(rows, [
    of('T 3', orders, 'successful'),
    of('T 2', stock, 'pending'),
    of('T 1', stock, 'failed'),
    of('T 1', orders, 'successful'),
  ]);
  const pages = await Promise.all([0, 1, 2, 3].map((offset) => ask(`?limit=1&offset=${offset}`)));
  assert.deepEqual(
    pages.flatMap((page) => page.rows),
    rows,
  );
});

test('they are found by resource, state and webhook', async () => {
  const found = [of('T 1', stock, 'failed'), of('T 1', orders, 'successful')];
  assert.deepEqual((await ask('?resource_id=T+1')).rows, found);
  assert.deepEqual((await ask('?status=failed')).rows, [of('T 1', stock, 'failed')]);
  assert.deepEqual((await ask(`?webhook_id=${orders.id}&resource_id=T+1`)).rows, [of('T 1', orders, 'successful')]);
  const none = await ask('?webhook_id=1');
  assert.deepEqual([none.status, none.rows], [200, []]);
});

test('the store links to them, and a store of others is a 404', async () => {
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` };
  const store = (await (await fetch(`${people.origin}/stores/${alpha}`, { headers })).json()) as Representation;
  assert.ok(store._links['svc:statuses']?.href.endsWith(DELIVERIES));
  const other = await fetch(`${people.origin}/stores/${people.foreign}/statuses`, { headers });
  assert.equal(other.status, 404);
});

test('the page names the webhook of each delivery, counts states in its tabs, and has its own tab of the store', async () => {
  const response = await show(DELIVERIES);
  assert.equal(response.status, 200);
  const page = (await response.text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  assert.match(page, /Transaction T 1 created Failed To Stock\./);
  assert.match(page, /Transaction T 1 created Delivered To Orders\./);
  assert.match(page, /All 4 Queued 0 Retrying 1 Not arrived 1 Delivered 2/);
  assert.match(page, /Webhooks Deliveries Events/);
  const filtered = (await (await show(`${DELIVERIES}?webhook_id=${stock.id}`)).text()).replaceAll(/\s+/g, ' ');
  assert.match(filtered, /<option value="\d+" selected[^>]*>Stock<\/option>/);
  assert.doesNotMatch(filtered, /To Orders\./);
});
