/**
 * The actions of a webhook that an app declares, whose key is valid in all stores: only the app and an owner in person make Halcyon send
 * with it, and what they send as a test is marked.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createThrottle, type Bucket } from '#identity/accounts/throttle.ts';
import { verifyDelivery } from '#receiver';
import { startReceiver } from '../setup/receiver.ts';
import { startWithOwners, type Owner } from '../setup/owners.ts';
import { homeOf } from '../setup/suite-map.ts';
import { ISSUER, REDIRECT } from './oauth-server.ts';
import { HTML } from '../setup/form-filler.ts';
import { hiddenIn } from './page-forms.ts';
import { fillIn, resourceTable } from './route-table.ts';

const owners = await startWithOwners({ OUTBOUND_ALLOW: '127.0.0.0/8' });
const { call, sql, platformToken: platform, newOwner, letIn } = owners;
const receiver = await startReceiver();

/** An app that declares a webhook. */
async function declaring(name: string) {
  const body = { name, redirect_uris: [REDIRECT], webhook_url: `${receiver.url}/${name}` };
  const made = await call('POST', '/clients', { token: platform, body });
  assert.equal(made.status, 201);
  const { client_id: clientId, client_secret: secret, webhook_key: key } = made.body;
  const credentials = { client_id: String(clientId), client_secret: String(secret) };
  const [row] = await sql<{ id: number }[]>`select id from client where client_id = ${credentials.client_id}`;
  return { id: row?.id ?? NaN, credentials, key: String(key) };
}
type Gadget = Awaited<ReturnType<typeof declaring>>;

/** The webhook of the app in the store, with its first delivery, which is pending. */
async function webhookIn({ storeId }: Pick<Owner, 'storeId'>, { id }: Pick<Gadget, 'id'>) {
  const [row] = await sql<{ id: number; deliveryId: number; eventId: number }[]>`
    select w.id, d.id as "deliveryId", d.event_id as "eventId" from webhook w
    join delivery d on d.shard = w.shard and d.webhook_id = w.id
    where w.client = ${id} and w.store_id = ${storeId} and w.is_for_app order by d.id`;
  assert.ok(row !== undefined);
  return { ...row, path: `/webhooks/${row.id}` };
}

const [gadget, other] = [await declaring('gadget'), await declaring('other')];
const owner = await newOwner();
const { access: own } = await letIn(owner, gadget);
const { access: foreign } = await letIn(owner, other);
const { path, id: webhookId, deliveryId, eventId } = await webhookIn(owner, gadget);
const since = owners.now().toISOString();

/** Every action below a webhook. `bodies`: valid ones, of the actions that need one. */
const bodies: Readonly<Record<string, object>> = { recover: { since }, answer: { response_code: 200, duration: 1 } };
const recovery = await call('POST', `${path}/recover`, { token: own, body: { since } });
const named = {
  webhook_id: String(webhookId),
  delivery_id: String(deliveryId),
  recovery_id: String(recovery.body['id']),
};
const actions = resourceTable(ISSUER)
  .filter((route) => route.path.startsWith('/webhooks/:webhook_id/') && route.operations.POST !== undefined)
  .map((route) => ({ at: fillIn(route, named), name: route.path.split('/').at(-1) ?? '' }));
const statusOf = async (token: string, { at, name }: (typeof actions)[number]): Promise<number> =>
  (await call('POST', at, { token, body: bodies[name] ?? {} })).status;

/** What an action could have left: deliveries, recoveries and requests. */
async function traces(): Promise<unknown> {
  const [rows] = await sql`
    select (select count(*) from delivery) as pending, (select count(*) from delivery_done) as done,
      (select string_agg(r::text, ',' order by r.id) from recovery r) as recoveries,
      (select string_agg(w::text, ',' order by w.id) from webhook w) as webhooks,
      (select count(*) from event) as events`;
  return { rows, got: receiver.got.length };
}

test('no action of a declared webhook is one of another app, of the platform or of a member', async () => {
  const member = await newOwner();
  const members = `/stores/${owner.storeId}/members`;
  const role = (is: string) => ({ token: platform, body: { role: is } });
  await call('POST', members, { token: platform, body: { user: member.userId, role: 'owner' } });
  const forms = await member.browser.open(path, HTML);
  await call('PATCH', `${members}/${member.userId}`, role('member'));
  const before = await traces();
  assert.ok(actions.length >= 8, `${actions.length} actions`);
  for (const action of actions) {
    assert.equal(await statusOf(foreign, action), 404, `another app: ${action.at}`);
    const ofPlatform = await statusOf(platform, action);
    assert.ok(ofPlatform === 403 || (action.name === 'answer' && ofPlatform === 404), `${action.at}: ${ofPlatform}`);
  }
  for (const name of ['test', 'recover', 'retry_pending']) {
    const action = `${path}/${name}`;
    const fields = { ...hiddenIn(forms, action), ...(name === 'recover' && { since }) };
    assert.equal((await member.browser.post(action, fields, HTML)).status, 403, name);
  }
  const { text } = await member.browser.open(path, HTML);
  assert.doesNotMatch(text, /action="[^"]*\/(?:test|recover|retry_pending)"/);
  assert.deepEqual(await traces(), before);
});

test('another app sends no change of access again, and the platform none to the webhook of the app', async () => {
  const again = `/stores/${owner.storeId}/apps/${eventId}/send_webhooks`;
  const before = await traces();
  assert.equal((await call('POST', again, { token: foreign, body: {} })).status, 404);
  for (const body of [{}, { webhooks: [webhookId] }]) {
    const { status } = await call('POST', again, { token: platform, body });
    assert.ok(status === 409 || status === 400, String(status));
  }
  assert.deepEqual(await traces(), before);
  assert.equal((await call('POST', again, { token: own, body: {} })).status, 202);
});

test('the app itself retries, resends, recovers and tests', async () => {
  for (const action of actions.filter(({ name }) => name !== 'rotate_key' && name !== 'answer')) {
    const status = await statusOf(own, action);
    // A delivery is pending, and a recovery open.
    assert.ok(
      [200, 202].includes(status) || (status === 409 && /resend|recover/.test(action.name)),
      `${action.at} ${status}`,
    );
  }
});

test('a test is marked where the signature covers it, and names this store and this app', async () => {
  const send = [
    () => call('POST', `${path}/test`, { token: own, body: { event: 'app/uninstalled' } }),
    async () => {
      const form = hiddenIn(await owner.browser.open(path, HTML), `${path}/test`);
      return owner.browser.post(`${path}/test`, { ...form, event: 'app/uninstalled' }, HTML);
    },
  ];
  for (const one of send) {
    receiver.got.length = 0;
    const { status } = await one();
    assert.ok([200, 303].includes(status), String(status));
    const [got] = receiver.got;
    assert.ok(got !== undefined);
    const { headers, body } = got;
    const delivery = await verifyDelivery({ headers, body, keys: [gadget.key], now: owners.now });
    assert.deepEqual(
      [delivery.event, delivery.isTest, headers['service-webhook-test']],
      ['app/uninstalled', true, 'true'],
    );
    assert.match(delivery.id, /^msg_test_/);
    const { client_id: clientId, store_id: storeId, is_sample: isSample } = delivery.json() as Record<string, unknown>;
    assert.deepEqual([clientId, storeId, isSample], [gadget.credentials.client_id, owner.storeId, true]);
    const forged = { ...headers, 'webhook-id': delivery.id.replace('test_', '') };
    const verifying = verifyDelivery({ headers: forged, body, keys: [gadget.key], now: owners.now });
    await assert.rejects(verifying, { code: 'bad_signature' });
  }
});

test('so many stores let in an app, or apps at a host, at a time; an end of access is never refused', async () => {
  const [busy, neighbour, person] = [await declaring('busy'), await declaring('neighbour'), await newOwner()];
  await letIn(person, busy);
  const throttle = createThrottle({ sql: homeOf(sql) });
  const drain = async (limit: Bucket['limit'], subject: string, now = owners.now()) => {
    while ((await throttle.take([{ limit, subject }], now)).allowed);
  };
  const letInto = ({ credentials }: Gadget) =>
    person.browser.consent(owners.asking({ client_id: credentials.client_id }));
  await drain('approvals of app', busy.credentials.client_id);
  const before = await traces();
  const refused = await letInto(busy);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '5']);
  assert.deepEqual(await traces(), before);
  assert.equal((await letInto(neighbour)).status, 303);
  await drain('approvals by person', String(person.userId));
  assert.equal((await letInto(neighbour)).status, 429);
  const stranger = await newOwner();
  assert.ok((await letIn(stranger, neighbour)).access, 'it is nothing of others');
  // For two approvals by the person.
  owners.wait(2 * 60_000);
  assert.equal((await letInto(busy)).status, 303);
  // A place at a host is free again after a second: it is drained for a minute.
  await drain('approvals to host', '127.0.0.1', new Date(owners.now().getTime() + 60_000));
  assert.equal((await letInto(neighbour)).status, 429);
  const { status } = await call('DELETE', `/grants/${await owners.grantOf(person)}`, { token: platform });
  assert.equal(status, 204);
});
