/** The complete application with one resource of each kind, so that every route has an existing resource. */
import { startTestApp, type TestApp } from './app.ts';

export type FurnishedApp = TestApp & {
  /** The value of each route parameter. */
  named: Readonly<Record<string, string>>;
};

const order = {
  id: 1,
  total: 5,
  date_created: '2026-11-20T16:05:03+0000',
  _embedded: { 'svc:items': [{ id: 2, name: 'Shirt' }], 'svc:customer': { id: 3, email: 'buyer@example.com' } },
};

const lastOf = (address: string): string => address.split('/').at(-1) ?? '';

async function made(response: Response): Promise<{ location: string; body: Record<string, unknown> }> {
  const body = (await response.json()) as Record<string, unknown>;
  const location = response.headers.get('location');
  if (location === null) throw new Error(`Nothing was made: ${response.status} ${JSON.stringify(body)}`);
  return { location, body };
}

/**
 * Creates a webhook with a delivery, a published order, an app of the platform, an invitation and a grant, in addition to those of every test
 * app.
 */
export async function startFurnishedApp(options: Parameters<typeof startTestApp>[0] = {}): Promise<FurnishedApp> {
  const app = await startTestApp({ roles: ['serve'], ...options });
  const { api, storeId, userId, platformToken: token, sql } = app;
  const url = 'http://127.0.0.1:9/hook';
  const hook = { name: 'Orders', format: 'json', encryption_key: 'a key of mine', url, event_resource: 'transaction' };
  const webhook = await made(await api('POST', `/stores/${storeId}/webhooks`, { body: hook }));
  const since = app.clock.now().toISOString();
  const recovery = await made(await api('POST', `${webhook.location}/recover`, { body: { since } }));
  const published = { event: 'transaction/created', resource: order };
  const event = await made(await api('POST', `/stores/${storeId}/events`, { token, body: published }));
  const details = { name: 'Another app', redirect_uris: ['https://other.example.com/cb'], owner: userId };
  const client = await made(await api('POST', '/clients', { token, body: details }));
  const invitations = `/stores/${storeId}/invitations`;
  const invitation = await made(await api('POST', invitations, { token, body: { role: 'member' } }));
  const [grant] = await sql<{ id: number }[]>`select id from access_grant where user_id = ${userId} limit 1`;
  const [delivery] = await sql<{ id: number }[]>`select id from delivery`;
  const named = {
    store_id: String(storeId),
    user_id: String(userId),
    webhook_id: lastOf(webhook.location),
    recovery_id: lastOf(recovery.location),
    invitation_id: lastOf(invitation.location),
    delivery_id: String(delivery?.id),
    event_id: lastOf(event.location),
    client_id: String(client.body['client_id']),
    grant_id: String(grant?.id),
    session_id: '1',
    passkey_id: '1',
    provider: 'Acme',
    identity_id: '1',
    collection: 'transactions',
    id: '1',
    relation: 'items',
    rel: 'webhooks',
    page: 'oauth',
    resource_type: 'transaction',
    action: 'created',
    file: 'none.js',
    token: 'none',
  };
  return { ...app, named };
}
