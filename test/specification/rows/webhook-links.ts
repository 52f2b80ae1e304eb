/** "Links in a webhook representation" and "Webhook collection". */
import assert from 'node:assert/strict';
import { selfOf, type Row } from '../row.ts';

const PAGING = ['first', 'prev', 'next', 'last'] as const;

export const webhookLinks: Row[] = [
  {
    row: 'curies: list of objects with name (svc), href ({base_url}/rels/{rel}) and templated (true)',
    holds: async ({ create }) => {
      const { body } = await create();
      const [curie] = body._links['curies'] as unknown as { href: string }[];
      const base = new URL(body._links['self']?.href ?? '').origin;
      assert.deepEqual(curie, { name: 'svc', href: `${base}/rels/{rel}`, templated: true });
    },
  },
  {
    row: 'self: {base_url}/webhooks/<webhook_id>, with a title',
    holds: async ({ create }) => {
      const { body } = await create();
      assert.match(body._links['self']?.href ?? '', new RegExp(`/webhooks/${String(body['id'])}$`));
      assert.ok(body._links['self']?.title);
    },
  },
  {
    row: 'svc:store: {base_url}/stores/<store_id>',
    holds: async ({ create, server }) => {
      const { body } = await create();
      assert.match(body._links['svc:store']?.href ?? '', new RegExp(`/stores/${server.alpha}$`));
    },
  },
  {
    row: 'svc:webhooks: {base_url}/stores/<store_id>/webhooks',
    holds: async ({ create, server }) => {
      const { body } = await create();
      assert.match(body._links['svc:webhooks']?.href ?? '', new RegExp(`/stores/${server.alpha}/webhooks$`));
    },
  },
  {
    row: 'collection _links: curies, self, first, prev, next, last (each with href and title)',
    holds: async ({ api, collection }) => {
      const { body } = await api('GET', collection);
      assert.ok(Array.isArray(body._links['curies']));
      for (const rel of ['self', ...PAGING]) assert.ok(body._links[rel]?.href && body._links[rel].title, rel);
    },
  },
  {
    row: 'first/prev/next/last pass an offset query parameter',
    holds: async ({ api, collection, create }) => {
      const { body: whole } = await api('GET', collection);
      for (const rel of PAGING) assert.match(whole._links[rel]?.href ?? '', /[?&]offset=\d+$/, rel);
      for (let n = 0; n < 3; n += 1) await create();
      const { body } = await api('GET', `${collection}?limit=1&offset=1`);
      const offsets = PAGING.map((rel) => new URL(body._links[rel]?.href ?? '').searchParams.get('offset'));
      const last = String(Number(body['total_items']) - 1);
      assert.deepEqual(offsets, ['0', '0', '2', last]);
    },
  },
  {
    row: '_embedded: key svc:webhooks holds the array of webhook representations',
    holds: async ({ api, collection, create }) => {
      const { body: webhook } = await create();
      const { body } = await api('GET', `${collection}?limit=300`);
      const found = body._embedded['svc:webhooks']?.find(({ id }) => id === webhook['id']);
      assert.equal(found?.['name'], webhook['name']);
    },
  },
  {
    row: 'total_items: string in JSON',
    holds: async ({ api, collection }) => {
      assert.match(JSON.stringify((await api('GET', collection)).body['total_items']), /^"\d+"$/);
    },
  },
  {
    row: 'total_items: number in the XML form',
    holds: async ({ api, collection }) => {
      const { text } = await api('GET', collection, { headers: { Accept: 'application/xml' } });
      assert.match(text, /<total_items>\d+<\/total_items>/);
    },
  },
  {
    row: 'returned_items: number of items in this page',
    holds: async ({ api, collection, create }) => {
      await create();
      const { body } = await api('GET', `${collection}?limit=1`);
      assert.equal(body['returned_items'], 1);
      assert.equal(body._embedded['svc:webhooks']?.length, 1);
    },
  },
  {
    row: 'limit: page size in use; 20 in the sample collection',
    holds: async ({ api, collection }) => {
      assert.equal((await api('GET', collection)).body['limit'], 20);
      assert.equal((await api('GET', `${collection}?limit=7`)).body['limit'], 7);
    },
  },
  {
    row: 'offset: position of the first item of this page',
    holds: async ({ api, collection }) => {
      assert.equal((await api('GET', collection)).body['offset'], 0);
      assert.equal((await api('GET', `${collection}?offset=2`)).body['offset'], 2);
    },
  },
  {
    row: 'XML form: root resource element with link elements, nested resource elements and the four paging elements',
    holds: async ({ api, collection, create }) => {
      await create();
      const { text } = await api('GET', collection, { headers: { Accept: 'application/hal+xml' } });
      assert.match(text, /^<\?xml[^>]*\?>\s*<resource /);
      assert.match(text, /<link [^>]*rel="next"/);
      assert.match(text, /<resource [^>]*rel="svc:webhooks"/);
      for (const name of ['total_items', 'returned_items', 'limit', 'offset']) {
        assert.match(text, new RegExp(`<${name}>\\d+</${name}>`));
      }
    },
  },
  {
    row: 'a form with properties (the four paging fields), entities, links (each with a rel array and href) and actions',
    holds: async ({ api, collection, create }) => {
      await create();
      const { text } = await api('GET', collection, { headers: { Accept: 'application/vnd.siren+json' } });
      const siren = JSON.parse(text) as {
        properties: Record<string, unknown>;
        entities: unknown[];
        links: { rel: unknown; href: unknown }[];
        actions: { name: string }[];
      };
      assert.deepEqual(Object.keys(siren.properties).toSorted(), ['limit', 'offset', 'returned_items', 'total_items']);
      assert.ok(siren.entities.length > 0);
      assert.ok(siren.links.every(({ rel, href }) => Array.isArray(rel) && typeof href === 'string'));
      assert.ok(siren.actions.length > 0);
    },
  },
  {
    row: 'self of an item in the collection leads to the item',
    holds: async ({ api, collection, create }) => {
      const made = await create();
      const { body } = await api('GET', `${collection}?limit=300`);
      const item = body._embedded['svc:webhooks']?.find(({ id }) => id === made.body['id']);
      assert.equal((await api('GET', item?._links['self']?.href ?? '')).body['id'], made.body['id']);
      assert.equal(new URL(item?._links['self']?.href ?? '').pathname, selfOf(made));
    },
  },
];
