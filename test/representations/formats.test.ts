/**
 * The delivered body in each format, as reviewed: golden/delivered-*.golden. `UPDATE_GOLDEN=1` rewrites
 * them, as in golden.test.ts.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import { after, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { CloudEvent, HTTP } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import { createAuthority } from '../setup/authority.ts';
import { KEY, startEngine } from '../setup/engine.ts';
import { portOf } from '../setup/exchanges.ts';
import { assertGolden } from '../setup/golden.ts';
import { until } from '../setup/until.ts';

const authority = createAuthority();
after(authority.remove);
// As NODE_EXTRA_CA_CERTS does when a process starts.
setDefaultCACertificates([...getCACertificates('default'), authority.cert]);

const got: { path: string; headers: IncomingHttpHeaders; body: string }[] = [];
const server = createServer(authority.sign('IP:127.0.0.1'), (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    got.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(204).end();
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
after(() => {
  server.closeAllConnections();
  server.close();
});

const transaction = {
  7: 'a name that JavaScript would put first',
  id: 70012,
  status: 'captured',
  name: 'Order of Ada',
  event: 'summer sale',
  total_order: 58.9,
  is_test: false,
  currency_code: 'EUR',
  customer_email: 'ada@example.com',
  note: null,
  ip: { country: 'DE', location: { city: 'Köln' } },
  tags: ['vip', 3],
  _embedded: {
    'svc:items': [
      { name: 'Coffee beans', price: 26, _embedded: { 'svc:item_options': [{ name: 'grind', value: 'espresso' }] } },
      { name: 'Cup', price: 6.9 },
    ],
    'svc:customer': { id: 5501, first_name: 'Ada', email: 'ada.m@example.com', is_anonymous: false },
    'svc:payments': [{ type: 'card', amount: 58.9 }],
  },
};
const ZOOM = 'zoom=items:item_options,customer';
const hooks = {
  automation: { format: 'partner_automation', query: ZOOM },
  'automation-fields': { format: 'partner_automation', query: 'fields=total_order,ip' },
  sitebuilder: { format: 'partner_sitebuilder', query: 'fields=total_order,currency_code,customer_email' },
  'sitebuilder-whole': { format: 'partner_sitebuilder', query: ZOOM },
  cloudevents: { format: 'cloudevents', query: ZOOM },
  'cloudevents-binary': { format: 'cloudevents_binary', query: 'fields=total_order,note' },
} as const;

const engine = await startEngine();
for (const [name, { format, query }] of Object.entries(hooks)) {
  const id = await engine.addWebhook(`https://127.0.0.1:${portOf(server)}/${name}`, { query });
  await engine.sql`update webhook set format = ${format} where id = ${id}`;
}
const worker = await engine.startWorker();
engine.handTo(worker);
const publish = (resource: { id: number | string; name: string; slug?: string }, resourceId = String(resource.id)) =>
  engine.publisher({
    storeId: engine.storeId,
    events: [{ type: 'transaction', action: 'created', resourceId, modifiedAt: null, body: JSON.stringify(resource) }],
    now: engine.clock.now(),
  });
async function arrived(count: number) {
  const all = await until(
    async () => got,
    ({ length }) => length >= count,
  );
  return Object.fromEntries(all.slice(count - Object.keys(hooks).length).map((one) => [one.path.slice(1), one]));
}
await publish(transaction);
const first = await arrived(Object.keys(hooks).length);

for (const name of Object.keys(hooks)) {
  test(`${name} is delivered as reviewed`, async () => {
    const found = first[name];
    assert.ok(found !== undefined);
    // Compared as text: parsing and serializing would move numeric names to the front.
    const body = found.body
      .replaceAll(/,(?=["{])/g, ',\n')
      .replace(/"evt_\w+"/, '"evt_…"')
      .replace(/"time":"[\d-]+T[\d:]+\.\d{3}Z"/, '"time":"…"');
    const answer = `${found.headers['content-type']}\n\n${body}\n`;
    await assertGolden(`delivered-${name}`, answer);
    assert.ok(JSON.parse(found.body));
  });
}

test('an automation platform gets its own object with a signature, and a site builder its token without one', () => {
  const { automation, sitebuilder } = first;
  assert.ok(automation !== undefined && sitebuilder !== undefined);
  new Webhook(KEY).verify(automation.body, automation.headers as Record<string, string>);
  assert.equal(automation.headers.authorization, undefined);
  assert.equal(sitebuilder.headers.authorization, `Bearer ${KEY}`);
  assert.deepEqual(
    Object.keys(sitebuilder.headers).filter((name) => name.includes('signature')),
    [],
  );
});

test('the CloudEvents SDK reads both modes as the same event, which is signed', () => {
  const { cloudevents, 'cloudevents-binary': binary } = first;
  assert.ok(cloudevents !== undefined && binary !== undefined);
  const [structured, other] = [cloudevents, binary].map((message) => {
    new Webhook(KEY).verify(message.body, message.headers as Record<string, string>);
    const event = HTTP.toEvent<{ total_order: number }>({ headers: message.headers, body: message.body });
    assert.ok(event instanceof CloudEvent && event.validate());
    const { id, source, type, subject, time, datacontenttype, resourceversion } = event;
    assert.equal(event.data?.total_order, transaction.total_order);
    return { id, source, type, subject, time, datacontenttype, resourceversion: Number(resourceversion) };
  });
  assert.deepEqual(structured, other);
  assert.equal(structured?.type, 'transaction/created');
  assert.equal(structured.subject, 'transactions/70012');
  assert.match(structured.source, new RegExp(`/stores/${engine.storeId}$`));
  assert.equal(structured.datacontenttype, 'application/json');
});

test('the id of an event is the same for all webhooks, and another one for another event', async () => {
  await publish({ id: 70013, name: 'Second' });
  const { cloudevents, 'cloudevents-binary': binary } = await arrived(2 * Object.keys(hooks).length);
  const idOf = (body = '') => (JSON.parse(body) as { id: string }).id;
  assert.equal(idOf(cloudevents?.body), binary?.headers['ce-id']);
  assert.notEqual(idOf(cloudevents?.body), idOf(first['cloudevents']?.body));
});

test('an item of a site has its own name and slug, even if the resource has none that is usable', async () => {
  await publish({ id: 'a/b', name: ' ', slug: 'no slug!' });
  await publish({ id: 'a b', name: 'Sale', slug: 'sale_2' });
  const { length } = Object.keys(hooks);
  await arrived(4 * length);
  const items = got
    .slice(2 * length)
    .filter(({ path }) => path === '/sitebuilder')
    .map(({ body }) => (JSON.parse(body) as { fieldData: Record<string, string> }).fieldData);
  assert.deepEqual(
    items.toSorted((a, b) => (String(a['name']) < String(b['name']) ? -1 : 1)),
    [
      { name: 'Sale', slug: 'sale_2' },
      { name: 'Transaction a/b', slug: 'transaction-a-b-c14cddc0', 'name-2': ' ', 'slug-2': 'no slug!' },
    ],
  );
});
