/** HAL as read by third-party clients: they know only the address of home and the names of relations. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import halson from 'halson';
import { bearerAuth, Client } from 'ketting';
import { startTestApp } from '../setup/app.ts';

const app = await startTestApp({ roles: ['serve'] });
const home = `${app.baseUrl}/`;
const version = { 'SERVICE-API-VERSION': '1' };

function startKetting(): Client {
  const client = new Client(home);
  client.use(bearerAuth(app.token));
  client.use((request, next) => {
    for (const [name, value] of Object.entries(version)) request.headers.set(name, value);
    return next(request);
  });
  return client;
}

const webhooksBy = async (client: Client) => client.follow('svc:store').follow('svc:webhooks');

const NAMES = ['Orders', 'Returns', 'Newsletter'];
const statuses: number[] = [];
for (const name of NAMES) {
  const body = { name, format: 'partner_automation' };
  statuses.push((await app.api('POST', `/stores/${app.storeId}/webhooks`, { body })).status);
}
assert.deepEqual(statuses, [201, 201, 201]);

test('ketting finds every webhook of the store from home', async () => {
  const webhooks = await webhooksBy(startKetting());
  const found = await webhooks.followAll<{ name: string }>('svc:webhooks');
  const states = await Promise.all(found.map((webhook) => webhook.refresh()));
  assert.deepEqual(
    states.map(({ data }) => data.name),
    NAMES,
  );
  const [back] = await Promise.all(found.map((webhook) => webhook.follow('svc:webhooks')));
  assert.equal(back?.uri, webhooks.uri);
});

test('ketting walks a collection page by page', async () => {
  const webhooks = await webhooksBy(startKetting());
  const first = webhooks.go('?limit=1&offset=0');
  const third = await first.follow('next').follow('next');
  const [webhook] = await third.followAll<{ name: string }>('svc:webhooks');
  assert.equal((await webhook?.get())?.data.name, NAMES[2]);
  assert.equal((await third.follow('first')).uri, first.uri);
});

/** halson parses a response; requests are left to its caller. */
async function readBy(href: string) {
  const response = await fetch(href, { headers: { ...version, Authorization: `Bearer ${app.token}` } });
  return halson(await response.text());
}

function hrefOf(resource: Awaited<ReturnType<typeof readBy>>, rel: string): string {
  const link = resource.getLink(rel, null);
  assert.ok(link !== null && link.templated !== true, `there is a link ${rel}`);
  return link.href;
}

test('halson reads a page: its links, embedded resources, and their links', async () => {
  const store = await readBy(hrefOf(await readBy(home), 'svc:store'));
  const page = await readBy(hrefOf(store, 'svc:webhooks'));
  assert.deepEqual(
    page.listLinkRels().filter((rel) => !rel.includes(':')),
    ['curies', 'self', 'first', 'prev', 'next', 'last'],
  );
  assert.deepEqual(page.listEmbedRels(), ['svc:webhooks']);
  const webhooks = page.getEmbeds<typeof page & { name: string }>('svc:webhooks');
  assert.deepEqual(
    webhooks.map(({ name }) => name),
    NAMES,
  );
  const [first] = webhooks;
  assert.ok(first !== undefined);
  const alone = await readBy(hrefOf(first, 'self'));
  assert.deepEqual(JSON.parse(JSON.stringify(alone)), JSON.parse(JSON.stringify(first)));
  assert.equal(hrefOf(alone, 'svc:webhooks'), hrefOf(page, 'self'));
});

test('halson resolves a curie to the documentation of a relation', async () => {
  const explained = await fetch((await readBy(home)).expandCurie('svc:webhooks'), { headers: version });
  assert.deepEqual([explained.status, explained.url], [200, `${app.baseUrl}/rels/webhooks`]);
});

test('ketting creates a webhook, changes it, puts it back unchanged, and deletes it', async () => {
  const webhooks = await webhooksBy(startKetting());
  const made = await webhooks.postFollow({ data: { name: 'Made', format: 'partner_automation' } });
  const changed = await made.patch({ data: { name: 'Changed' } });
  assert.deepEqual([changed?.data.name, changed?.data.format], ['Changed', 'partner_automation']);
  const state = await made.refresh();
  assert.equal(state.data.name, 'Changed');
  // Its `put(state)` repeats the headers of the response, `Keep-Alive` among them, which Node's fetch refuses.
  await made.put({ data: { ...state.data, name: 'Put back' } });
  assert.equal((await made.refresh()).data.name, 'Put back');
  const total = async () => (await webhooks.refresh()).data.total_items;
  assert.equal(await total(), '4');
  await made.delete();
  assert.equal(await total(), '3');
  await assert.rejects(made.refresh(), { status: 404 });
});
