/** "Endpoints", "States and transitions", "Versioning". */
import assert from 'node:assert/strict';
import { faultsIn, MINIMAL, selfOf, type Row } from '../row.ts';

const headAndOptions = (
  what: string,
  pathOf: (world: Parameters<Row['holds']>[0]) => Promise<string>,
  allowed: string[],
): Row[] => [
  {
    row: `${what}: HEAD: headers only`,
    holds: async (world) => {
      const path = await pathOf(world);
      const [get, head] = [await world.api('GET', path), await world.api('HEAD', path)];
      assert.equal(head.text, '');
      assert.equal(head.status, 200);
      for (const name of ['content-type', 'content-length', 'etag']) {
        assert.equal(head.headers.get(name), get.headers.get(name), name);
      }
    },
  },
  {
    row: `${what}: OPTIONS: explains which HTTP methods are supported`,
    holds: async (world) => {
      const { status, headers, body } = await world.api('OPTIONS', await pathOf(world));
      assert.equal(status, 200);
      assert.deepEqual(headers.get('allow')?.split(', ').toSorted(), allowed);
      assert.deepEqual(Object.keys(body['methods'] as object).toSorted(), allowed);
    },
  },
];

const version: Row[] = [
  {
    row: 'Every API request carries the header SERVICE-API-VERSION with value 1: without it',
    holds: async ({ server, token }) => {
      const reply = await fetch(`${server.origin}/`, { headers: { Authorization: `Bearer ${token}` } });
      assert.equal(reply.status, 400);
      assert.match(await reply.text(), /"code":"version_required"/);
    },
  },
  {
    row: 'Other supported API versions: none',
    holds: async ({ api }) => {
      const reply = await api('GET', '/', { headers: { 'SERVICE-API-VERSION': '2' } });
      assert.deepEqual([reply.status, faultsIn(reply)], [400, ['SERVICE-API-VERSION version_unsupported']]);
    },
  },
];

export const endpoints: Row[] = [
  {
    row: 'GET {base_url}: svc:token with href {base_url}/token, a title and type application/json',
    holds: async ({ api }) => {
      const { body } = await api('GET', '/', { token: null });
      const token = body._links['svc:token'];
      assert.match(token?.href ?? '', /\/token$/);
      assert.ok(token?.title);
      assert.equal(token?.type, 'application/json');
    },
  },
  {
    row: 'GET {base_url}/stores/<store_id>/webhooks: page of webhooks',
    holds: async ({ api, collection }) => assert.equal((await api('GET', collection)).status, 200),
  },
  {
    row: 'POST {base_url}/stores/<store_id>/webhooks: the created webhook',
    holds: async ({ api, create }) => {
      const made = await create({ name: 'Made here' });
      assert.equal(made.status, 201);
      assert.equal(made.body['name'], 'Made here');
      const read = await api('GET', made.headers.get('location') ?? '');
      assert.equal(read.text, made.text);
    },
  },
  ...headAndOptions('collection', async ({ collection }) => collection, ['GET', 'HEAD', 'OPTIONS', 'POST']),
  {
    row: 'GET {base_url}/webhooks/<webhook_id>: the webhook',
    holds: async ({ api, create }) => {
      const made = await create();
      assert.equal((await api('GET', selfOf(made))).body['id'], made.body['id']);
    },
  },
  {
    row: 'PATCH: only the properties to modify: the webhook updated',
    holds: async ({ api, create }) => {
      const made = await create({ query: 'fields=id', event_resource: 'customer' });
      const { status, body } = await api('PATCH', selfOf(made), { body: { name: 'New' } });
      assert.equal(status, 200);
      assert.deepEqual([body['name'], body['query'], body['event_resource']], ['New', 'fields=id', 'customer']);
    },
  },
  {
    row: 'PUT: the entire representation: the webhook replaced',
    holds: async ({ api, create }) => {
      const made = await create({ query: 'fields=id', event_resource: 'customer' });
      const { status, body } = await api('PUT', selfOf(made), { body: { ...MINIMAL, name: 'New' } });
      assert.equal(status, 200);
      assert.deepEqual([body['name'], body['query'], body['event_resource']], ['New', null, null]);
    },
  },
  {
    row: 'PUT takes back what GET gave',
    holds: async ({ api, create }) => {
      const made = await create({ event_resource: 'customer' });
      const { status, body } = await api('PUT', selfOf(made), { body: made.body });
      assert.equal(status, 200);
      assert.deepEqual(body['events'], made.body['events']);
    },
  },
  {
    row: 'DELETE: the webhook deleted',
    holds: async ({ api, create }) => {
      const made = await create();
      assert.equal((await api('DELETE', selfOf(made))).status, 204);
      assert.equal((await api('GET', selfOf(made))).status, 404);
    },
  },
  ...headAndOptions('webhook', async ({ create }) => selfOf(await create()), [
    'DELETE',
    'GET',
    'HEAD',
    'OPTIONS',
    'PATCH',
    'PUT',
  ]),
  ...(['PATCH', 'PUT'] as const).flatMap((method): Row[] =>
    (['0', '1'] as const).map((is_active) => ({
      row: `is_active = ${is_active === '0' ? 1 : 0}: ${method} setting is_active to ${is_active}: is_active = ${is_active}`,
      holds: async ({ api, create }) => {
        const made = await create({ is_active: is_active === '0' ? '1' : '0' });
        const { body } = await api(method, selfOf(made), {
          body: method === 'PUT' ? { ...MINIMAL, is_active } : { is_active },
        });
        assert.equal(body['is_active'], is_active);
        assert.equal((await api('GET', selfOf(made))).body['is_active'], is_active);
      },
    })),
  ),
  ...version,
  {
    row: 'API calls carry Authorization: Bearer <ACCESS_TOKEN>: without it',
    holds: async ({ api, collection }) => {
      const { status, headers, body } = await api('GET', collection, { token: null });
      assert.equal(status, 401);
      assert.match(headers.get('www-authenticate') ?? '', /^Bearer /);
      assert.equal(body['error'], 'invalid_token');
    },
  },
];
