/** The event catalogue of the running server: complete, and true for what the same server delivers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allEvents, bareKindOf, eventsOf, HIDDEN_FROM_APPS, OPERATOR_EVENT, relationsOf } from '#catalog/catalog.ts';
import { resourceDocument, FULL_SHAPE } from '#catalog/resource-document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { zoomsOf } from '../setup/any-resource.ts';
import { faultsOf, openCatalogue, publishes } from '../setup/event-catalogue.ts';
import { euros, startRevenue } from '../setup/revenue.ts';
import { SEED } from '../setup/seed.ts';

type Json = Record<string, unknown>;

const PUBLISHES = 300;

const catalogue = await openCatalogue();
const { baseUrl, api, store, schemas } = catalogue;
const all = allEvents();

async function read(path: string): Promise<Json> {
  const response = await fetch(baseUrl + path, { headers: { Accept: 'application/hal+json' } });
  assert.equal(response.status, 200, path);
  return (await response.json()) as Json;
}

/** Returns the members that a schema names, without those of every representation. */
const membersOf = (schema: Json | undefined): string[] =>
  Object.keys(schema?.['properties'] ?? {}).filter((name) => !['_links', '_embedded', 'is_sample'].includes(name));

const ownMembers = (body: Json): string[] => Object.keys(body).filter((name) => !name.startsWith('_'));

test('the links lead from the documentation to every event that a webhook can subscribe to', async () => {
  const { _links: links } = (await read('/docs')) as { _links: Record<string, { href: string }> };
  const list = await read(new URL(links['svc:event_types']?.href ?? '').pathname);
  const items = (list['_embedded'] as Record<string, Json[]>)['svc:event_types'] ?? [];
  assert.deepEqual(
    items.map(({ event }) => event),
    all,
  );
  for (const { event, _links: own } of items as { event: string; _links: { self: { href: string } } }[]) {
    const item = await read(new URL(own.self.href).pathname);
    const type = event.slice(0, event.indexOf('/'));
    const { since, when } = item as Record<string, string>;
    const isBare = bareKindOf(type as 'customer', event.slice(type.length + 1)) !== undefined;
    const zooms = isBare ? [] : zoomsOf(relationsOf(type as 'customer'));
    assert.deepEqual([item['event'], item['resource_type'], item['zoom']], [event, type, zooms]);
    assert.match(`${since} ${when}`, /^\d+\.\d+\.\d+ [A-Z].+\.$/);
    const body = { name: 'x', format: 'json', encryption_key: 'k', events: [event], query: `zoom=${zooms.join(',')}` };
    const created = await api('POST', `${store}/webhooks`, {
      // An app is sent its own events only, by the webhook that it declares, and none for the operator.
      ...(HIDDEN_FROM_APPS.includes(type) && { token: catalogue.platformToken }),
      body: zooms.length === 0 ? { ...body, query: '' } : body,
    });
    assert.equal(created.status, 201, await created.clone().text());
    assert.equal((await api('DELETE', created.headers.get('location') ?? '')).status, 204);
  }
});

test('an event that is not in the catalogue is a 404', async () => {
  for (const path of ['transaction/refeed', 'transaction/toString', 'order/created', 'constructor/name'])
    assert.equal((await fetch(`${baseUrl}/docs/events/${path}`)).status, 404, path);
});

test('every example matches the schema of its event', async () => {
  for (const event of all) {
    const { examples } = (await read(`/docs/events/${event}`)) as { examples: { body: Json }[] };
    assert.ok(examples.length > 0, event);
    const bodies = examples.map(({ body }) => ({ event, body }));
    assert.deepEqual(faultsOf(bodies, schemas), []);
    for (const { body } of bodies)
      assert.deepEqual(faultsOf([{ event, body: { ...body, id: null } }], schemas).length, 1);
  }
});

test('the page has each event with its schema and its relations', async () => {
  const response = await fetch(`${baseUrl}/docs/events`, { headers: { Accept: 'text/html' } });
  const page = await response.text();
  assert.equal(response.status, 200);
  for (const event of all) assert.ok(page.includes(event), event);
  for (const zoom of ['items:item_options', 'transaction_template:items', 'default_payment_method'])
    assert.ok(page.includes(`<code>${zoom}</code>`), zoom);
  assert.match(page, /json-schema\.org\/draft\/2020-12/);
});

test('generated publishes are accepted, delivered, and match the schemas', async () => {
  await catalogue.subscribe();
  await catalogue.publish(publishes(PUBLISHES, { derived: true, seed: SEED }));
  const change = { token: catalogue.platformToken, body: { subscription_events: 'published' } };
  const derived = await catalogue.delivered();
  assert.equal((await api('PATCH', store, change)).status, 200);
  await catalogue.publish(publishes(PUBLISHES, { derived: false, seed: SEED }));
  // An erasure ends the deliveries of the customer that wait.
  await catalogue.delivered();
  const listed = (await (await api('GET', `${store}/customers?limit=1`)).json()) as Json;
  const [customer] = Object.values(listed['_embedded'] as Record<string, Json[]>).flat();
  const erasing = { token: catalogue.platformToken };
  assert.equal((await api('DELETE', `${store}/customers/${String(customer?.['id'])}`, erasing)).status, 204);
  const bodies = await catalogue.delivered();
  assert.deepEqual(faultsOf(bodies, schemas), []);
  const seen = new Set(bodies.map(({ event }) => event));
  assert.deepEqual(
    all.filter((event) => !seen.has(event)),
    // In test/journeys/app-life.test.ts, operator-events.test.ts, and in the test below, which has its own clock.
    [...eventsOf('app'), ...eventsOf(OPERATOR_EVENT), 'subscription_mrr_snapshot/created'],
  );

  // What Halcyon makes has exactly the members of its schema, in the same order.
  const steps = derived.filter(({ event }) => event === 'subscription_event/created');
  const [own] = (schemas.get('subscription_event/created')?.['anyOf'] ?? []) as Json[];
  assert.ok(steps.length > PUBLISHES / 20, String(steps.length));
  for (const { body } of steps) assert.deepEqual(ownMembers(body), membersOf(own));
  const strict = new Map([['subscription_event/created', { ...own, $schema: undefined }]]);
  assert.deepEqual(faultsOf(steps, strict as unknown as Map<string, Json>), []);
  const entries = bodies.filter(({ event }) => event === 'changelog/created');
  for (const { body } of entries) assert.deepEqual(ownMembers(body), membersOf(schemas.get('changelog/created')));
});

test('the snapshots that Halcyon publishes match their schema, with all its members', async () => {
  const { addStore, publish, round, texts } = await startRevenue();
  const storeId = await addStore('Europe/Berlin');
  await publish(storeId, '2027-03-01T10:00:00Z', euros('a', '19.99'), euros('b', 900_000_000_000_000));
  await round(storeId, '2027-03-03T00:10:00Z');
  const event = 'subscription_mrr_snapshot/created';
  const bodies = (await texts(storeId)).map((body) => {
    const frozen = { storeId, type: 'subscription_mrr_snapshot', id: '1', baseUrl, body } as const;
    const document = resourceDocument(frozen, FULL_SHAPE);
    return { event, body: JSON.parse(renderHal(document, { baseUrl, relationPrefix: 'svc' })) as Json };
  });
  assert.ok(bodies.length > 0);
  assert.deepEqual(faultsOf(bodies, schemas), []);
  const { currencies } = (schemas.get(event)?.['properties'] ?? {}) as { currencies?: { items: Json } };
  for (const { body } of bodies) {
    assert.deepEqual(ownMembers(body), membersOf(schemas.get(event)));
    const [first] = body['currencies'] as Json[];
    assert.deepEqual(Object.keys(first ?? {}).toSorted(), membersOf(currencies?.items).toSorted());
  }
});
