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
const settings = { name: 'Orders', format: 'json', event_resource: 'transaction' };
const made = await send(WEBHOOKS, filled(await formFor(WEBHOOKS, 'POST'), settings));
const path = (made.headers.get('location') ?? '').split('?', 1)[0] ?? '';
const DELIVERIES = `${path}/statuses`;
const webhook = Number(path.split('/').at(-1));
const { event, pending, ended, attempt } = createHistory(people.sql, { storeId: alpha, webhook });
for (const n of [1, 2, 3]) await event(n);
await ended(1, 'successful');
await pending(2);
await ended(3, 'failed');
await attempt(3, 2, 500);

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
  const [, href] =
    new RegExp(`<a\\s+href="([^"]*)"[^>]*>\\s*${label}(?:\\s*<span[^<]*</span>)?\\s*</a`).exec(page) ?? [];
  assert.ok(href !== undefined, label);
  return href.replaceAll('&amp;', '&').slice(DELIVERIES.length);
}

/** Returns the fields of the button that sends again what the list at this address shows. */
async function recoveryFrom(address: string): Promise<Record<string, string>> {
  const form = await formFor(address, 'POST');
  form.delete('nonce');
  form.delete('_key');
  return Object.fromEntries(form);
}

test('each delivery has its subject, its state in words, and the short reason of a failure', async () => {
  const { page, rows } = await read();
  assert.deepEqual(rows, [
    'Transaction T 3 created Failed',
    'Transaction T 2 created Retrying',
    'Transaction T 1 created Delivered',
  ]);
  assert.match(page, /Attempt 2(?: is next|: <time )/);
});

test('the tabs show the deliveries of a state, and keep other filters', async () => {
  const { page } = await read('?resource_id=T+2&limit=7');
  for (const [label, found] of [
    ['All', 1],
    ['Queued', 0],
    ['Retrying', 1],
    ['Not arrived', 0],
    ['Delivered', 0],
  ] as const) {
    const tab = tabIn(page, label);
    assert.match(tab, /resource_id=T\+2&limit=7/);
    const shown = await read(tab);
    assert.equal(shown.rows.length, found, label);
    assert.match(shown.page, new RegExp(`aria-current="page"[^>]*>\\s*${label}\\s*</a`));
  }
  const counts = [];
  for (const label of ['All', 'Queued', 'Retrying', 'Not arrived', 'Delivered'])
    counts.push((await read(tabIn((await read()).page, label))).rows.length);
  assert.deepEqual(counts, [3, 0, 1, 1, 1]);
});

test('what a search of failed deliveries shows is sent again by a recovery of the same part', async () => {
  const query = `${DELIVERIES}?status=failed&resource_id=T+3&response_code=500&response_body=*ell*&date_created:lessthan=2999-01-01`;
  const { since, ...part } = await recoveryFrom(query);
  assert.ok(Date.parse((since ?? '').replace('+0000', 'Z')) < people.now().getTime() - 29 * 86_400_000);
  assert.deepEqual(part, {
    only_failed: '1',
    until: '2999-01-01T00:00:00+0000',
    resource_id: 'T 3',
    response_code: '500',
    response_body: '*ell*',
  });
  // In the list of the store a webhook has to be chosen.
  const list = `/stores/${alpha}/statuses?status=failed`;
  assert.match(await (await show(list)).text(), /Choose a webhook to send these again/);
  assert.deepEqual(Object.keys(await recoveryFrom(`${list}&webhook_id=${webhook}`)), ['only_failed', 'since']);
  // A recovery cannot be limited to a number of attempts.
  const { page } = await read('?status=failed&attempts:greaterthan=1');
  const [, href = ''] = /<a href="([^"]*)">Send what failed again/.exec(page) ?? [];
  assert.equal(href, `${path}#recover`);
  assert.match(await (await show(path)).text(), /<section [^>]*id="recover"/);
});

test('pending deliveries of a webhook are retried from its list, and other states have no button', async () => {
  assert.match((await read('?status=pending')).page, /Retry pending deliveries of this webhook now/);
  const form = await formFor(`${DELIVERIES}?status=pending`, 'POST');
  assert.equal((await send(`${path}/retry_pending`, form)).status, 303);
  assert.doesNotMatch((await read()).page, /Send these again|Retry pending/);
});

test('the deliveries of a resource are found by its id, in the state of the tab', async () => {
  const sent = await show(`${DELIVERIES}?_search=UTC&status=failed&resource_id=T+3`);
  assert.equal(sent.headers.get('location'), `${DELIVERIES}?status=failed&resource_id=T+3`);
  assert.equal((await read('?status=failed&resource_id=T+3')).rows.length, 1);
  assert.equal((await read('?status=failed&resource_id=T+2')).rows.length, 0);
});

test('a text that responses contain is searched for as it was written', async () => {
  const written = String.raw`5 * "50 %" \ more`;
  const query = new URLSearchParams({ _search: 'UTC', 'response_body:contains': written }).toString();
  const sent = await show(`${DELIVERIES}?${query}`);
  const location = new URL(sent.headers.get('location') ?? '', people.origin);
  assert.equal(location.searchParams.get('response_body'), String.raw`*5 \* "50 %" \\ more*`);
  const { page } = await read(location.search);
  assert.match(page, /name="response_body:contains"\s+value="5 \* &quot;50 %&quot; \\ more"/);
  assert.equal((await read('?response_body=*ELL*')).rows.length, 1);
});

test('the form with all filters is open only for filters that the page does not show elsewhere', async () => {
  const isOpen = async (query: string) => /<details class="search"[^>]*open/.test((await read(query)).page);
  assert.equal(await isOpen('?status=failed&resource_id=T+3'), false);
  assert.equal(await isOpen('?event=transaction/created'), true);
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
