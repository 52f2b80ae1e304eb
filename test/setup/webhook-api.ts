/**
 * The operations of stores and webhooks on a real socket and database. Only `authenticate` is replaced: it knows a few fixed
 * tokens.
 */
import { Readable } from 'node:stream';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { ACCOUNTS_HERE } from '#shards/map.ts';
import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { createChangelog } from '#changelog/changelog.ts';
import { whyUnavailable } from '#db/unavailable.ts';
import { createSealer } from '#db/seal.ts';
import { createSearch } from '#db/search.ts';
import { createPreview } from '#delivery/attempt/test-deliveries.ts';
import { createIdAllocator } from '#db/partitions.ts';
import { createInternalEventWriter } from '#events/publish/internal-event.ts';
import { createIdempotency } from '#http/idempotency.ts';
import { createRequestMetrics } from '#http/requests.ts';
import { resource } from '#http/route.ts';
import { createServer } from '#http/server.ts';
import { html } from '#hypermedia/markup.ts';
import { createLog } from '#core/log.ts';
import type { Principal } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import { createHome } from '#stores/home.ts';
import { createStoreOperations } from '#stores/store-operations.ts';
import { createStore } from '#stores/store.ts';
import { createWebhookOperations } from '#webhooks/webhook-operations.ts';
import { readConfig } from '../../src/config/config.ts';
import { testDatabase, MIDSUMMER, MIDSUMMER_TEMPLATE } from './database.ts';
import { send } from './send.ts';

export const BASE_URL = 'http://api.example.test';
export const AUTH_URL = 'http://auth.example.test';

/** Clients: 11 and 12 are apps with access to store A, 21 to store B. In person: the owner and a member of A. */
export type Token = 'a' | 'a-other' | 'b' | 'user' | 'platform' | 'owner' | 'member';
export type Link = { href: string; title?: string; type?: string };
export interface Representation {
  _links: Record<string, Link>;
  _embedded: Record<string, Representation[]>;
  [name: string]: unknown;
}
/** `body` is empty if the response is not JSON. */
export type Reply = { status: number; headers: Headers; body: Representation; text: string };
type Ask = { token?: Token | null; body?: unknown; headers?: Record<string, string | null> };

function encode(body: unknown): { bytes: string | Uint8Array<ArrayBuffer>; type: string } {
  if (body instanceof URLSearchParams) return { bytes: body.toString(), type: 'application/x-www-form-urlencoded' };
  if (body instanceof Uint8Array) return { bytes: new Uint8Array(body), type: 'application/json' };
  return { bytes: typeof body === 'string' ? body : JSON.stringify(body), type: 'application/json' };
}

const createCaller =
  (origin: string) =>
  async (method: string, path: string, { token = 'a', body, headers = {} }: Ask = {}): Promise<Reply> => {
    const encoded = body === undefined ? undefined : encode(body);
    const all: Record<string, string | null> = {
      'SERVICE-API-VERSION': '1',
      Authorization: token === null ? null : `Bearer ${token}`,
      'Content-Type': encoded?.type ?? null,
      ...headers,
    };
    const url = origin + path.replace(BASE_URL, '');
    const { status, headers: got, text } = await send(url, { method, headers: all, body: encoded?.bytes });
    const isJson = text !== '' && (got.get('content-type') ?? '').endsWith('json');
    const representation = JSON.parse(isJson ? text : '{}') as Representation;
    return { status, headers: got, body: representation, text };
  };

const shop = (name: string, timeZone: string) => ({
  name,
  domain: `${name.toLowerCase()}.example.com`,
  email: `owner@${name.toLowerCase()}.example.com`,
  timeZone,
  now: new Date('2026-01-02T03:04:05Z'),
});

/** Creates two stores and the callers of `Token`; closed and dropped at the end of the file. */
export async function startWebhookApi(settings: { versions?: string } = {}) {
  const closers: (() => Promise<unknown>)[] = [];
  // Registered before the first await, because node:test assigns hooks to the test that runs synchronously.
  after(async () => {
    for (const close of closers.toReversed()) await close();
  });
  const { sql } = await testDatabase({ after: (drop) => void closers.push(drop) }, MIDSUMMER_TEMPLATE);
  const a = (await createStore(sql, shop('Alpha', 'Europe/Berlin'))).id;
  const b = (await createStore(sql, shop('Beta', 'UTC'))).id;
  const store = { grantId: 1, scope: 'store_full_access', permissions: null, suspended: new Map(), owned: [] } as const;
  const account = {
    grantId: 3,
    scope: 'user_full_access',
    permissions: null,
    suspended: new Map(),
    owned: [],
  } as const;
  const platform = { grantId: 4, scope: 'platform', permissions: null, suspended: new Map(), owned: [] } as const;
  const inPerson = {
    grantId: null,
    scope: 'user_full_access',
    permissions: null,
    clientId: null,
    publicClientId: null,
    suspended: new Map(),
    stores: [a],
  } as const;
  // The clients of the tokens below; 41 is the platform's.
  const now = new Date('2026-01-02T03:04:05Z');
  await sql`insert into users (id, email, password_hash, date_created)
    select n, n || '@example.com', '-', ${now} from generate_series(1, 4) n`;
  await sql`insert into membership (shard, store_id, user_id, role, date_created)
    select s.shard, s.id, n, 'owner', ${now} from store s, generate_series(1, 4) n`;
  await sql`insert into client (id, client_id, name, redirect_uris, trusted, date_created)
    select n, 'app-' || n, 'App', array['https://app.example.com/'], n = 41, ${now} from unnest(array[11, 12, 21, 31, 41]) n`;
  await sql`insert into access_grant (id, client, user_id, scope, date_created)
    select n, n, u, 'user_full_access', ${now} from unnest(array[11, 12, 21, 31], array[1, 1, 2, 3]) g (n, u)`;
  const principals: Record<Token, Principal> = {
    a: { ...store, userId: 1, clientId: 11, publicClientId: 'app-11', stores: [a] },
    'a-other': { ...store, userId: 1, clientId: 12, publicClientId: 'app-12', stores: [a] },
    b: { ...store, userId: 2, clientId: 21, publicClientId: 'app-21', stores: [b] },
    user: { ...account, userId: 3, clientId: 31, publicClientId: 'app-31', stores: [a, b] },
    platform: { ...platform, userId: null, clientId: 41, publicClientId: 'app-41', stores: 'all' },
    owner: { ...inPerson, userId: 1, owned: [a] },
    member: { ...inPerson, userId: 4, owned: [] },
  };
  const clock = { time: MIDSUMMER };
  const changed: { shard: number; id: number }[] = [];
  const newKeys: number[] = [];
  // No deliveries and test deliveries are sent.
  const write = createInternalEventWriter({
    allocateIds: createIdAllocator(),
    baseUrl: BASE_URL,
    announce: async () => {},
  });
  const changelog = createChangelog(write);
  const sealer = createSealer(randomBytes(32));
  const stores = createStoreOperations(
    { sql, config: readConfig({ BASE_URL }, '/') },
    {
      changelog,
      collections: [],
      chartsOf: async () => ({}),
      onDomainChanged: async () => {},
      rescheduleSnapshot: async () => {},
      hasSecondFactor: async () => false,
      erasure: { erasers: [], lockAppsOf: async () => {} },
    },
  );
  const webhooks = createWebhookOperations({
    sql,
    accounts: ACCOUNTS_HERE,
    changelog,
    search: createSearch(sql, { searchLimitMs: 2_000, searchesAtOnce: 3, searchesWaiting: 10 }),
    sealer,
    config: readConfig({ BASE_URL, WEBHOOK_VERSIONS: settings.versions }, '/'),
    preview: createPreview(
      { sql, sealer, log: createLog('error') },
      { baseUrl: BASE_URL, headerPrefix: 'Service', userAgent: 'Halcyon/test', relationPrefix: 'svc' },
    ),
    onKeyReplaced: (webhook) => void newKeys.push(webhook.webhookId),
    onResent: () => {},
    sendSample: async () => ({ kind: 'stopping' }),
    attemptsMaxOf: () => 12,
    pull: { open: () => Readable.from([]), answer: async () => 'unknown' },
    authenticate: async () => {
      throw new Error('no listener in this test');
    },
    handshake: undefined,
    guard: createGuard({ allowed: ['127.0.0.0/8'] }, async () => []),
    announce: async (_tx, shard, ids) => void changed.push(...ids.map((id) => ({ shard, id }))),
    retryNow: async () => {},
    clock: { now: () => clock.time, monotonicMs: () => 0 },
    log: createLog('error'),
  });
  const app = createServer(
    {
      // No user is signed in.
      pages: {
        visitorOf: async () => null,
        anonymousNav: () => html``,
        frameOriginsOf: () => [],
        signInAt: (path) => `/sign-in?return_to=${path}`,
        keep: () => undefined,
      },
      beforeRequest: async () => {},
      beforeReply: async () => {},
      isStopping: () => false,
      designedPages: new Map(),
      rateLimit: () => ({}),
      watchRequests: createRequestMetrics(new Registry()),
      idempotency: createIdempotency({ sql, sealer, fingerprintKeys: [randomBytes(32)] }),
      settings: {
        bodyLimitBytes: 1024 * 1024,
        headersLimitBytes: 32 * 1024,
        requestTimeoutMs: 60_000,
        unsentMs: 30_000,
        unsentBytesMax: 256 * 1024 * 1024,
        arrivingBytesMax: 256 * 1024 * 1024,
        trustedProxies: [],
        versionHeader: 'SERVICE-API-VERSION',
        authOrigin: AUTH_URL,
        home: '/account',
        apiOrigin: BASE_URL,
      },
      naming: { baseUrl: BASE_URL, relationPrefix: 'svc' },
      clock: { now: () => clock.time, monotonicMs: () => performance.now() },
      log: createLog('silent'),
      whyUnavailable,
      authenticate: async (token) => {
        const principal = Object.hasOwn(principals, token) ? principals[token as Token] : undefined;
        if (principal !== undefined) return principal;
        throw new Problem(401, { code: 'invalid_token', message: 'The access token provided is invalid' });
      },
    },
    [
      resource('/', { GET: createHome({ baseUrl: BASE_URL, authUrl: AUTH_URL }, ({ document }) => document.name) }),
      resource('/stores', { GET: stores.list }),
      resource('/stores/:store_id', { GET: stores.read }),
      resource('/stores/:store_id/webhooks', { GET: webhooks.list, POST: webhooks.create }),
      resource('/webhooks/:webhook_id', {
        GET: webhooks.read,
        PATCH: webhooks.patch,
        PUT: webhooks.replace,
        DELETE: webhooks.remove,
      }),
      resource('/webhooks/:webhook_id/rotate_key', { POST: webhooks.rotateKey }),
      resource('/webhooks/:webhook_id/statuses', { GET: webhooks.statuses }),
      resource('/webhooks/:webhook_id/statuses/:delivery_id', { GET: webhooks.status }),
      resource('/webhooks/:webhook_id/logs', { GET: webhooks.logs }),
    ],
  );
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  closers.push(() => app.close());
  return { call: createCaller(`http://127.0.0.1:${port}`), sql, a, b, clock, changed, newKeys, sealer };
}

export type WebhookApi = Awaited<ReturnType<typeof startWebhookApi>>;

/** Returns the faults of an error document as `field code`, in the order of the document. */
export function faultsIn({ body }: Reply): string[] {
  return (body._embedded['svc:errors'] ?? []).map(({ field = '-', code }) => [field, code].join(' '));
}

/** The required properties of a webhook. */
export const minimal = { name: 'Orders', format: 'json', encryption_key: 'a key of mine' };
