/**
 * A webhook's body equals GET of the resource with the webhook's query, byte for byte, while that version is the
 * latest; and it always equals `svc:payload` of the event. With random resources and queries.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { collectionOf, relationsOf, type ResourceType } from '#catalog/catalog.ts';
import { embedding, zoomsOf } from '../setup/any-resource.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { SEED } from '../setup/seed.ts';

const TYPES = ['transaction', 'subscription', 'customer', 'transaction_log'] as const satisfies ResourceType[];
const QUERIES = 8;
const RESOURCES = 10;

function queries(type: ResourceType): fc.Arbitrary<string> {
  const zoom = fc.subarray(zoomsOf(relationsOf(type)));
  const fields = fc.option(
    fc.subarray(['id', 'total_order', 'currency_code', 'is_active', 'toString', 'none'], { minLength: 1 }),
  );
  const links = fc.option(fc.subarray(['store', 'send_webhooks', ...Object.keys(relationsOf(type))]));
  return fc.tuple(zoom, fields, links).map(([paths, kept, linked]) => {
    const parts = [
      paths.length > 0 && `zoom=${paths.join(',')}`,
      kept && `fields=${kept.join(',')}`,
      // The test finds the resource by `self`.
      linked && `links=${['self', ...linked].join(',')}`,
    ];
    return parts.filter((part) => typeof part === 'string').join('&');
  });
}

const app = await startTestApp();
const events = `/stores/${app.storeId}/events`;

async function bytesOf(address: string, query: string): Promise<string> {
  const response = await app.api('GET', `${address}?${query}`);
  assert.equal(response.status, 200, address);
  return Buffer.from(await response.arrayBuffer()).toString('hex');
}

for (const type of TYPES) {
  test(`the body delivered for a ${type} equals GET and the event's payload with the webhook's query`, async (t) => {
    const receiver = await startReceiver(t);
    const wanted = fc.sample(queries(type), { numRuns: QUERIES, seed: SEED });
    for (const [index, query] of wanted.entries()) {
      const url = `${receiver.url}/${index}`;
      const body = { name: `${index}`, format: 'json', encryption_key: 'k', url, event_resource: type, query };
      const response = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body });
      assert.equal(response.status, 201, await response.text());
    }
    const resources = fc.sample(embedding(relationsOf(type)), { numRuns: RESOURCES, seed: SEED });
    const array = resources.map((resource, id) => ({ event: `${type}/created`, resource: { ...resource, id } }));
    const answer = await app.api('POST', events, { token: app.platformToken, body: array });
    assert.equal(answer.status, 200, await answer.clone().text());
    const { _embedded } = (await answer.json()) as {
      _embedded: { 'svc:events': { id: number; resource_id: string }[] };
    };
    await receiver.until(QUERIES * RESOURCES);

    const payloads = new Map(_embedded['svc:events'].map(({ id, resource_id: of }) => [of, `${events}/${id}/payload`]));
    assert.equal(payloads.size, RESOURCES);
    for (const { path, body } of receiver.got) {
      const query = wanted[Number(path.slice(1))] ?? '';
      const { _links } = JSON.parse(body.toString()) as { _links: { self: { href: string } } };
      const id = _links.self.href.slice(_links.self.href.lastIndexOf('/') + 1);
      const delivered = body.toString('hex');
      assert.equal(await bytesOf(`/stores/${app.storeId}/${collectionOf(type)}/${id}`, query), delivered, query);
      assert.equal(await bytesOf(payloads.get(id) ?? '', query), delivered, query);
    }
  });
}
