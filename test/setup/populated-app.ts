/**
 * A populated fixture: two stores with owners, apps with access, working webhooks and a failing one, published resources of every
 * kind, and their deliveries. The clock stands still, so that pages are the same in each run.
 */
import { addMember } from '#stores/store.ts';
import { createBrowser, REDIRECT, startAuthorizationServer } from '../security/oauth-server.ts';
import { startReceiver } from './receiver.ts';
import { respond } from './send.ts';
import { until } from './until.ts';

/** The events that the platform published for store number `n`. */
const tellings = (n: number) => [
  {
    event: 'customer/created',
    resource: {
      id: n * 1_000 + 1,
      first_name: 'Grace',
      last_name: 'Hopper',
      email: 'grace@example.com',
      is_anonymous: false,
      date_created: '2026-06-30T09:00:00+0200',
      date_modified: '2026-06-30T09:00:00+0200',
      _embedded: {
        'svc:attributes': [{ name: 'rank', value: 'Rear admiral' }],
        'svc:customer_addresses': [{ address1: '1 Compiler Way', city: 'Arlington', country: 'US' }],
      },
    },
  },
  {
    event: 'transaction/created',
    resource: {
      id: n * 1_000 + 2,
      status: 'approved',
      customer_email: 'grace@example.com',
      total_item_price: 19.9,
      total_tax: 3.18,
      total_order: 23.08,
      currency_code: 'EUR',
      is_test: true,
      note: 'Leave it <b>at the door</b> & ring "twice"',
      ip_country: null,
      date_created: '2026-06-30T10:00:00+0200',
      date_modified: '2026-06-30T10:00:00+0200',
      _embedded: {
        'svc:items': [
          {
            name: 'Brush',
            price: 9.95,
            quantity: 2,
            _embedded: { 'svc:item_options': [{ name: 'colour', value: 'green', price_mod: 0 }] },
          },
        ],
        'svc:customer': { id: n * 1_000 + 1, first_name: 'Grace', last_name: 'Hopper', email: 'grace@example.com' },
        'svc:payments': [{ type: 'credit_card', amount: 23.08, cc_number_masked: 'xxxx xxxx xxxx 4242' }],
      },
    },
  },
  {
    event: 'subscription/created',
    resource: {
      id: n * 1_000 + 3,
      is_active: true,
      frequency: '1m',
      start_date: '2026-06-30T00:00:00+0200',
      next_transaction_date: '2026-07-30T00:00:00+0200',
      end_date: null,
      past_due_amount: 0,
      date_created: '2026-06-30T10:00:00+0200',
      date_modified: '2026-06-30T10:00:00+0200',
    },
  },
  {
    event: 'transaction_log/created',
    resource: { id: `log-${n}`, message: 'Captured by hand', date_created: '2026-06-30T11:00:00+0200' },
  },
];

export async function inhabit({ env, ...options }: { isResolvable?: boolean; env?: Record<string, string> } = {}) {
  const receiver = await startReceiver();
  receiver.answer(({ path }, response) => {
    const [status, text] = path === '/fails' ? [500, 'The shelf is full'] : [200, 'Thank you'];
    response.writeHead(status, { 'Content-Type': 'text/plain', Date: 'Wed, 01 Jul 2026 10:00:00 GMT' }).end(text);
  });
  const server = await startAuthorizationServer(
    { OUTBOUND_ALLOW: '127.0.0.0/8', ...env },
    { roles: ['serve', 'deliver'], ...options },
  );
  await addMember(server.sql, { storeId: server.foreign, userId: server.bobId, role: 'owner', now: server.now() });
  const bob = createBrowser(server.origin);
  await bob.signIn(server.bob);

  const redeem = async (location: string | null, client: Record<string, string> = {}): Promise<string> => {
    const code = new URL(location ?? '').searchParams.get('code') ?? '';
    return String((await server.redeem(code, client)).body['access_token']);
  };
  const redirect_uri = 'https://other.example.com/cb';
  const otherApp = { client_id: server.other.client_id, redirect_uri };
  const platformAnswer = await server.token({
    grant_type: 'client_credentials',
    scope: 'platform',
    ...server.platform,
  });
  const tokens = {
    /** An app in Ada's store. */
    store: await redeem((await server.browser.consent(server.asking())).location),
    /** Another app in the same store. */
    neighbour: await redeem((await server.browser.consent(server.asking(otherApp))).location, {
      ...server.other,
      redirect_uri,
    }),
    /** An app with access to Ada's whole account. */
    user: await redeem((await server.browser.consent(server.asking({ scope: 'user_full_access' }))).location),
    /** The same app in Bob's store. */
    foreign: await redeem((await bob.consent(server.asking())).location),
    platform: String(platformAnswer.body['access_token']),
  };

  /** `path` may be a URL of the representation. `bytes` are sent unchanged, otherwise `body` as JSON. */
  const call = (
    method: string,
    path: string,
    asked: { token?: string; accept?: string; body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<Response> => {
    const { token = tokens.store, accept, body, headers = {} } = asked;
    const address = new URL(path, server.origin);
    return respond(server.origin + address.pathname + address.search, {
      method,
      headers: {
        ...(headers['Cookie'] === undefined && { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` }),
        ...(accept !== undefined && { Accept: accept }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    });
  };
  const must = async (response: Promise<Response>): Promise<{ [name: string]: unknown }> => {
    const { ok, status } = await response;
    const text = await (await response).text();
    if (!ok) throw new Error(`The fixture could not be populated: ${status} ${text}`);
    return JSON.parse(text) as { [name: string]: unknown };
  };

  const furnish = async (storeId: number, token: string): Promise<number[]> => {
    const hooks = [
      {
        name: 'Orders',
        format: 'json',
        url: `${receiver.url}/works`,
        query: 'zoom=items,customer',
        filter: 'total_order:greaterthan=0',
      },
      { name: 'Warehouse', format: 'json', url: `${receiver.url}/fails` },
      { name: 'Automation', format: 'partner_automation', is_active: '0', headers: { 'X-Team': 'Ops' } },
    ];
    const ids: number[] = [];
    for (const hook of hooks) {
      const key = hook.format === 'json' ? { encryption_key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' } : {};
      const body = { event_resource: 'transaction', ...hook, ...key };
      ids.push(Number((await must(call('POST', `/stores/${storeId}/webhooks`, { token, body })))['id']));
    }
    return ids;
  };
  const webhooks = await furnish(server.alpha, tokens.store);
  await furnish(server.foreign, tokens.foreign);
  const events: number[] = [];
  for (const [n, storeId] of [server.alpha, server.foreign].entries()) {
    for (const body of tellings(n + 1)) {
      const made = await must(call('POST', `/stores/${storeId}/events`, { token: tokens.platform, body }));
      if (storeId === server.alpha) events.push(Number(made['id']));
    }
  }
  await until(
    () => server.sql<{ n: number }[]>`select count(*) as n from attempt_log`,
    ([row]) => row?.n === 4,
  );
  const asked = await must(call('POST', `/webhooks/${webhooks[0]}/recover`, { body: { since: '2026-06-30' } }));
  const recovery = Number(asked['id']);
  await until(
    () => must(call('GET', `/webhooks/${webhooks[0]}/recoveries/${recovery}`)),
    ({ date_ended }) => date_ended !== null,
  );
  return {
    ...server,
    server,
    bobsBrowser: bob,
    receiver,
    tokens,
    call,
    webhooks,
    events,
    recovery,
    redirect: REDIRECT,
  };
}

export type Inhabited = Awaited<ReturnType<typeof inhabit>>;
