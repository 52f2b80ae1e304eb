/** The search of a store: "why did order 2120 not arrive?" by the links of the pages, and what the box finds and does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { HTML } from '../setup/form-filler.ts';
import { ISSUER } from '../security/oauth-server.ts';

const people = await startWithPeople();
const { call, browser, sql, alpha, foreign, platformToken: platform } = people;

const ORDER = '2120';
const URL_OF_HOOK = 'https://hooks.example.com/in/orders';

/** Publishes an order and a customer to a webhook, and ends the delivery of the order as failed. */
async function furnish(storeId: number) {
  const hook = {
    name: 'Warehouse',
    format: 'json',
    encryption_key: 'a key',
    event_resource: 'transaction',
    url: `${URL_OF_HOOK}?token=secret`,
  };
  const made = await call('POST', `/stores/${storeId}/webhooks`, { token: platform, body: hook });
  const body = { event: 'transaction/created', resource: { id: ORDER, total: 5 } };
  const published = await call('POST', `/stores/${storeId}/events`, { token: platform, body });
  const customer = { event: 'customer/created', resource: { id: 'C-7' } };
  await call('POST', `/stores/${storeId}/events`, { token: platform, body: customer });
  const [delivery] = await sql<{ id: number }[]>`
    with over as (delete from delivery where store_id = ${storeId} returning *)
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started, duration_ms, outcome,
      response_code)
    select shard, id, store_id, webhook_id, event_id, 'failed', 12, ${people.now()}, ${people.now()}, 5, 'refused', 500 from over
    returning id`;
  const [webhook, event] = [Number(made.body['id']), Number(published.body['id'])];
  assert.ok(webhook > 0 && event > 0 && delivery !== undefined);
  const paths = {
    order: `/stores/${storeId}/transactions/${ORDER}`,
    customer: `/stores/${storeId}/customers/C-7`,
    event: `/stores/${storeId}/events/${event}`,
    delivery: `/webhooks/${webhook}/statuses/${delivery.id}`,
    webhook: `/webhooks/${webhook}`,
  };
  return { webhook, event, delivery: delivery.id, paths };
}
const mine = await furnish(alpha);
/** A store of others in the same shard, where its ids are found by the same keys. */
const neighbour = alpha + 256 * 1_000;
await sql`
  insert into store select (jsonb_populate_record(s, jsonb_build_object('id', ${neighbour}::bigint, 'shard', ${alpha % 256}::int))).*
  from store s where id = ${foreign}`;
const theirs = await furnish(neighbour);

const find = (text: string, reader = browser) =>
  reader.open(`/stores/${alpha}/search?${new URLSearchParams({ q: text }).toString()}`, HTML);
const linksOf = (markup: string): [path: string, text: string][] =>
  [...markup.matchAll(/<a\s[^>]*?href="([^"]*)"[^>]*>([^]*?)<\/a\s*>/g)].map(([, href = '', inside = '']) => [
    href.replaceAll('&amp;', '&'),
    inside
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  ]);

test('why order 2120 did not arrive is answered in three clicks from the overview', async () => {
  const overview = await browser.open(`/stores/${alpha}/overview`, HTML);
  const [, action = ''] = /<form method="get" action="([^"]*)" role="search"/.exec(overview.text) ?? [];
  let clicks = 0;
  const click = async (path: string) => {
    clicks += 1;
    const page = await browser.open(path, HTML);
    return page.location === null ? page : browser.open(page.location, HTML);
  };
  const follow = (page: { text: string }, label: RegExp) => {
    const [path] = linksOf(page.text).find(([, text]) => label.test(text)) ?? [];
    assert.ok(path !== undefined, `no link ${String(label)}`);
    return click(path);
  };
  const order = await click(`${action}?q=${ORDER}`);
  const deliveries = await follow(order, /^Its deliveries$/);
  const delivery = await follow(deliveries, /^Transaction 2120 created$/);
  assert.match(delivery.text, /Your endpoint answered 500/);
  assert.ok(clicks <= 4, `${clicks} clicks`);
  const events = linksOf((await follow(order, /^Its events$/)).text).map(([path]) => path);
  assert.ok(events.includes(mine.paths.event));
  const event = await browser.open(mine.paths.event, HTML);
  assert.ok(linksOf(event.text).some(([path]) => path.startsWith(`${mine.paths.event}/statuses`)));
});

test('the page of a webhook leads to its changes alone', async () => {
  await call('PATCH', mine.paths.webhook, { token: platform, body: { rate_per_second: 5 } });
  const [path] =
    linksOf((await browser.open(mine.paths.webhook, HTML)).text).find(([, text]) => text.startsWith('Who created')) ??
    [];
  assert.ok(path !== undefined);
  const page = (await browser.open(path, HTML)).text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  assert.match(page, /platform created the webhook Warehouse /);
  assert.equal(page.split('Open this entry').length - 1, 2, 'its creation and its change');
});

test('each id and address leads to what it names, and those of another store to nothing', async () => {
  const texts = ({ webhook, event, delivery, paths }: typeof mine) => ({
    [paths.order]: [ORDER, `#${ORDER}`, ` ${ORDER} `, `${ISSUER}${paths.order}`, `${ISSUER}${paths.order}?zoom=items`],
    [paths.customer]: ['C-7', `${ISSUER}${paths.customer}`],
    [paths.event]: [String(event), `${ISSUER}${paths.event}`, `${ISSUER}${paths.event}/statuses`],
    [paths.delivery]: [String(delivery), `${ISSUER}${paths.delivery}`],
    [paths.webhook]: [String(webhook), URL_OF_HOOK, `${URL_OF_HOOK}?token=1`, `${ISSUER}${paths.webhook}/statuses`],
  });
  for (const [path, asked] of Object.entries(texts(mine)))
    for (const text of asked) {
      const found = await find(text);
      // An event and a delivery may have the same id: both are listed.
      const paths = found.location === null ? linksOf(found.text).map(([to]) => to) : [found.location];
      assert.ok(paths.includes(path), `${text}: ${paths.join(' ')}`);
      if (text !== String(mine.event) && text !== String(mine.delivery)) assert.equal(found.status, 303, text);
    }
  const own = new Set(Object.values(mine.paths));
  const ofChangelog = await sql<{ id: number }[]>`select id from event where store_id = ${alpha}`;
  for (const { id } of ofChangelog)
    for (const kind of ['events', 'changelogs']) own.add(`/stores/${alpha}/${kind}/${id}`);
  // What both stores have under the same id or url is that of the store.
  const same = new Set([ORDER, `#${ORDER}`, ` ${ORDER} `, 'C-7', URL_OF_HOOK, `${URL_OF_HOOK}?token=1`]);
  for (const text of Object.values(texts(theirs)).flat()) {
    if (same.has(text)) continue;
    // It may be the id of something in the store, too: an event and a delivery may have the same.
    const { location, text: page } = await find(text);
    const hits = location === null ? linksOf(/<main[^]*<\/main>/.exec(page)?.[0] ?? '') : [[location]];
    const strange = hits.filter(([path = '']) => path !== `/stores/${alpha}` && !own.has(path));
    assert.deepEqual(strange, [], text);
    if (text.includes(`/stores/${neighbour}/`)) assert.equal(location, null, text);
  }
});

test('several hits are a list, and nothing is an error', async () => {
  const body = { event: 'customer/created', resource: { id: ORDER } };
  await call('POST', `/stores/${alpha}/events`, { token: platform, body });
  const { status, text } = await find(ORDER);
  assert.equal(status, 200);
  const paths = new Set(linksOf(text).map(([path]) => path));
  for (const path of [mine.paths.order, `/stores/${alpha}/customers/${ORDER}`]) assert.ok(paths.has(path), path);
  for (const odd of [
    '',
    ' ',
    '\0',
    'a\0b',
    '\uD800',
    '%',
    `${ISSUER}/%zz/%`,
    'https://',
    'x'.repeat(70),
    `https://${'x'.repeat(2_000)}`,
    '9'.repeat(30),
  ])
    assert.equal((await find(odd)).status, 200, odd);
});

test('the search is for members of the store who are signed in', async () => {
  const path = `/stores/${foreign}/search?q=${ORDER}`;
  assert.equal((await browser.open(path, HTML)).status, 404);
  const response = await fetch(people.origin + path, { headers: HTML, redirect: 'manual' });
  assert.equal(response.headers.get('location')?.split('?', 1)[0], '/sign-in');
});
