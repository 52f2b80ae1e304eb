/** The page of a webhook's deliveries, as a member of the store uses it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { createFiller, filled, HTML } from '../setup/form-filler.ts';
import { createHistory } from '../setup/history.ts';

const people = await startWithPeople();
const { alpha, store } = people;
const { show, formFor, send } = createFiller(people.origin, people.browser);

const WEBHOOKS = `/stores/${alpha}/webhooks`;
const made = await send(WEBHOOKS, filled(await formFor(WEBHOOKS, 'POST'), { name: 'Orders', format: 'json' }));
const path = (made.headers.get('location') ?? '').split('?', 1)[0] ?? '';
const DELIVERIES = `${path}/statuses`;
const webhook = Number(path.split('/').at(-1));
const { event, pending, ended, attempt } = createHistory(people.sql, { storeId: alpha, webhook });
for (const n of [1, 2, 3]) await event(n);
await ended(1, 'successful');
await pending(2);
await ended(3, 'failed');
await attempt(3, 1, 500);

async function read(query = '') {
  const response = await show(DELIVERIES + query);
  assert.equal(response.status, 200);
  const page = await response.text();
  const rows = [...page.matchAll(/<p class="entry">([^]*?)<\/p>/g)].map(([, inside = '']) =>
    inside
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
  return { page, rows };
}
/** Returns the address of a tab. */
function tabIn(page: string, label: string): string {
  const [, href] = new RegExp(`<a\\s+href="([^"]*)"[^>]*>\\s*${label}\\s*</a`).exec(page) ?? [];
  assert.ok(href !== undefined, label);
  return href.replaceAll('&amp;', '&').slice(DELIVERIES.length);
}

test('each delivery has its subject, its state in words, and the short reason of a failure', async () => {
  const { page, rows } = await read();
  assert.deepEqual(rows, [
    'Transaction T 3 created Failed',
    'Transaction T 2 created Retrying',
    'Transaction T 1 created Delivered',
  ]);
  assert.match(page, /Attempt 2 (is next|in )/);
});

test('the tabs show the deliveries of a state, and keep other filters', async () => {
  const { page } = await read('?resource_id=T+2&limit=7');
  for (const [label, found] of [
    ['All', 1],
    ['Queued', 0],
    ['Retrying', 1],
    ['Failed', 0],
    ['Delivered', 0],
  ] as const) {
    const tab = tabIn(page, label);
    assert.match(tab, /resource_id=T\+2&limit=7/);
    const shown = await read(tab);
    assert.equal(shown.rows.length, found, label);
    assert.match(shown.page, new RegExp(`aria-current="page"[^>]*>\\s*${label}\\s*</a`));
  }
  const counts = [];
  for (const label of ['All', 'Queued', 'Retrying', 'Failed', 'Delivered'])
    counts.push((await read(tabIn((await read()).page, label))).rows.length);
  assert.deepEqual(counts, [3, 0, 1, 1, 1]);
});

test('the deliveries of a resource are found by its id, in the state of the tab', async () => {
  const sent = await show(`${DELIVERIES}?_search=UTC&status=failed&resource_id=T+3`);
  assert.equal(sent.headers.get('location'), `${DELIVERIES}?status=failed&resource_id=T+3`);
  assert.equal((await read('?status=failed&resource_id=T+3')).rows.length, 1);
  assert.equal((await read('?status=failed&resource_id=T+2')).rows.length, 0);
});

test('an app gets the generic page, and so does a page without the properties of a row or in another order', async () => {
  const headers = { ...HTML, Authorization: `Bearer ${store}` };
  const page = await (await fetch(people.origin + DELIVERIES, { headers })).text();
  assert.match(page, /<table>/);
  for (const query of ['?fields=id', '?fields=status,attempts,date_created', '?order=attempts']) {
    const { page: generic, rows } = await read(query);
    assert.deepEqual(rows, []);
    assert.match(generic, /<table>/);
  }
});
