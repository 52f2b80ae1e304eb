/**
 * An app with the client that openapi-typescript and openapi-fetch make of /openapi.json: home, its store, a new webhook and an
 * event. generated-client.test.ts compiles and runs it; every member has a type, and none is asserted.
 */
import createClient from 'openapi-fetch';
import type { components, paths } from './api.ts';

type Link = components['schemas']['link'];
type Errors = components['schemas']['errors'];

const { BASE_URL = '', TOKEN = '' } = process.env;
const header = { 'SERVICE-API-VERSION': '1' } as const;

// The second parameter selects the type of responses: without it each is the union of all formats.
const api = createClient<paths, 'application/hal+json'>({
  baseUrl: BASE_URL,
  headers: { Accept: 'application/hal+json', Authorization: `Bearer ${TOKEN}` },
});

/** Returns the data of a response. Throws with the messages of an error. */
function dataOf<T>({ data, error }: { data?: T; error?: Errors }): T {
  if (data !== undefined) return data;
  const messages = error?._embedded?.['svc:errors']?.map(({ code, message }) => `${code}: ${message}`);
  throw new Error(messages?.join('; ') ?? 'No data');
}

/** Returns the id at the end of a link. */
function idOf(link: Link | undefined): number {
  if (link === undefined) throw new Error('The link is missing');
  return Number(link.href.split('/').at(-1));
}

const home = dataOf(await api.GET('/', { params: { header } }));
const storeId = idOf(home._links['svc:store']);
const store = dataOf(await api.GET('/stores/{store_id}', { params: { path: { store_id: storeId }, header } }));

const created = dataOf(
  await api.POST('/stores/{store_id}/webhooks', {
    params: { path: { store_id: storeId }, header },
    body: {
      name: 'Orders',
      format: 'json',
      url: 'https://app.example.com/hooks',
      encryption_key: 'whsec_c2VjcmV0IG9mIHRoZSBhcHA=',
      event_resource: 'transaction',
      headers: { 'X-App': 'sample' },
    },
  }),
);
const webhookId: number = created.id;
const pausedUntilChanged: string | null = created.reason;
const isActive: '0' | '1' = created.is_active;

const webhooks = dataOf(
  await api.GET('/stores/{store_id}/webhooks', {
    params: { path: { store_id: storeId }, query: { limit: 10, fields: 'id,name' }, header },
  }),
);
const listed = webhooks._embedded['svc:webhooks'].map(({ id, name }): string => `${id ?? ''} ${name ?? ''}`);

const events = dataOf(
  await api.GET('/stores/{store_id}/events', {
    params: { path: { store_id: storeId }, query: { event: 'transaction/created' }, header },
  }),
);
const [event] = events._embedded['svc:events'];
const payload = dataOf(
  await api.GET('/stores/{store_id}/events/{event_id}', {
    params: { path: { store_id: storeId, event_id: idOf(event?._links.self) }, header },
  }),
);

const missing = await api.GET('/webhooks/{webhook_id}', { params: { path: { webhook_id: 1 }, header } });

// A type that a compiler had collapsed would have every member.
// @ts-expect-error: a store has no such member.
const noMember: unknown = store.no_such_member;
// @ts-expect-error: an id is a number.
const noText: string = created.id;
// @ts-expect-error: a webhook needs a name.
const noBody: paths['/stores/{store_id}/webhooks']['post']['requestBody']['content']['application/json'] = {
  format: 'json',
};

console.log(
  JSON.stringify({
    store: store.name,
    webhookId,
    isActive,
    reason: pausedUntilChanged,
    listed,
    total: events.total_items,
    event: payload.event,
    error: missing.error?._embedded?.['svc:errors']?.[0]?.code,
    unknown: [noMember, typeof noText, noBody.format],
  }),
);
