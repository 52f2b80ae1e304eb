/** The request of each attempt, whatever has changed in the webhook since: as the endpoint got it, or said to be another one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { createWebhookPurges } from '#webhooks/webhook-purges-sql.ts';
import { amountOf } from '../setup/amount.ts';
import { startTestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { storesOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import type { Representation } from '../setup/webhook-api.ts';

const app = await startTestApp();
const { sql, storeId, platformToken } = app;
const receiver = await startReceiver();
let status = 500;
receiver.answer((_got, response) => void response.writeHead(status).end());

async function ask(method: string, path: string, body?: object, token?: string) {
  const options = { ...(body && { body }), ...(token !== undefined && { token }) };
  const response = await app.api(method, path, options);
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text || '{}') as Representation };
}

const DAY_MS = 86_400_000;
let webhooks = 0;
/** Creates a webhook with an endpoint of its own, and a delivery to it. */
async function open(): Promise<{ at: string; id: number; path: string; delivery: string }> {
  const path = `/of/${(webhooks += 1)}`;
  status = 500;
  const settings = { name: 'Hook', format: 'json', encryption_key: 'key-of-first', event_resource: 'customer' };
  const made = await ask('POST', `/stores/${storeId}/webhooks`, { ...settings, url: receiver.url + path });
  assert.equal(made.status, 201, made.text);
  const event = { event: 'customer/created', resource: { id: webhooks, first_name: 'Zoë', note: 'x' } };
  assert.equal((await ask('POST', `/stores/${storeId}/events`, event, platformToken)).status, 201);
  const id = Number(made.body['id']);
  const [row] = await until(
    () =>
      sql<{ id: number }[]>`select delivery_id as id from attempt_log where webhook_id = ${id} and outcome is not null`,
    (rows) => rows.length > 0,
  );
  return { at: `/webhooks/${id}`, id, path, delivery: `/webhooks/${id}/statuses/${row?.id}` };
}

const read = async (at: string, token?: string): Promise<Representation> =>
  (await ask('GET', at, undefined, token)).body;
const requestOf = (delivery: Representation) => delivery._embedded['svc:request'] as unknown as Representation;
const logsOf = (delivery: Representation): Representation[] => delivery._embedded['svc:logs'] ?? [];

/** Attempts the delivery once more, unless it has ended. */
async function retry(delivery: string): Promise<void> {
  const before = Number((await read(delivery))['attempts']);
  await ask('POST', `${delivery}/retry`, {});
  await until(
    () => read(delivery),
    (now) => Number(now['attempts']) > before || now['status'] !== 'pending',
  );
}

const SIGNATURES = /^(?:service-webhook-signature|service-webhook-signature-next|webhook-signature): /;
const isOpen = (line: string): boolean => !SIGNATURES.test(line);
const linesOf = ({ headers }: Got): string[] =>
  Object.entries(headers)
    .filter(([name]) => !['host', 'connection', 'content-length'].includes(name))
    .map(([name, value]) => `${name}: ${String(value)}`);
const shownLines = (request: Representation): string[] =>
  String(request['headers'])
    .split('\n')
    .map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()));
const pathOf = (request: Representation): string => {
  const { pathname, search } = new URL(String(request['url']));
  return pathname + search;
};

/** A port that nothing listens on. */
const CLOSED = 'http://127.0.0.1:1/closed';
type Change = { isOfKey?: true; method: 'PATCH' | 'POST'; to?: string; body: (own: string, n: number) => object };
const patch = (body: Change['body']): Change => ({ method: 'PATCH', body });
const CHANGES: readonly Change[] = [
  patch((own, n) => ({ url: `${receiver.url}${own}/${n}` })),
  patch((own, n) => ({ url: `${receiver.url}${own}?token=secret-${n}` })),
  patch(() => ({ url: CLOSED })),
  patch((_, n) => ({ headers: { 'X-Team': `team-${n}`, 'X-Token': `secret-${n}` } })),
  patch(() => ({ headers: {} })),
  patch(() => ({ query: 'fields=id' })),
  patch(() => ({ query: 'fields=id,first_name&links=self' })),
  patch(() => ({ query: '' })),
  patch(() => ({ format: 'cloudevents' })),
  patch(() => ({ format: 'cloudevents_binary' })),
  patch(() => ({ format: 'partner_automation' })),
  patch(() => ({ format: 'json' })),
  patch((_, n) => ({ name: `Name ${n}`, rate_per_second: 100 + n, ordering: n % 2 === 0 ? 'resource' : '' })),
  { isOfKey: true, ...patch((_, n) => ({ encryption_key: `key-${n}` })) },
  { isOfKey: true, method: 'POST', to: '/rotate_key', body: () => ({}) },
  { isOfKey: true, method: 'POST', to: '/rotate_key', body: () => ({ finish: '1' }) },
];

/** Compares each recorded attempt with what the endpoint got; `hasKept`: the key was never replaced. */
async function compare(delivery: string, got: readonly Got[], hasKept: boolean): Promise<void> {
  for (const log of logsOf(await read(delivery))) {
    const n = Number(log['attempt']);
    const request = requestOf(await read(log._links['svc:request']?.href ?? ''));
    const received = got.find(({ headers }) => headers['service-webhook-attempt'] === String(n));
    assert.equal(request['attempt'], n);
    if (received === undefined) {
      assert.deepEqual([request['url'], request['as_sent']], [CLOSED, false]);
      continue;
    }
    assert.equal(pathOf(request), received.path);
    assert.equal(request['body'], received.body.toString());
    // Signatures are those that were sent, or left out.
    const isShown = (line: string) => request['as_sent'] === true || isOpen(line);
    assert.deepEqual(shownLines(request), linesOf(received).filter(isShown));
    assert.ok(request['as_sent'] === true || !hasKept, String(request['note']));
  }
}

test('after any changes of a webhook each attempt shows the request that the endpoint got', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...CHANGES), { minLength: 1, maxLength: 5 }), async (changes) => {
      const { at, id, path, delivery } = await open();
      for (const [n, { method, to = '', body }] of changes.entries()) {
        // The last attempt succeeds, unless nothing listens at its url.
        if (n === changes.length - 1) status = 204;
        const changed = await ask(method, at + to, body(path, n));
        // A rotation cannot begin during another one, and not finish without one.
        assert.ok(changed.status < 300 || (to !== '' && changed.status === 409), changed.text);
        await retry(delivery);
      }
      const hasKept = changes.every(({ isOfKey }) => isOfKey === undefined);
      const isOwn = (got: Got) => got.path.split(/[?/]/)[2] === path.split('/')[2];
      await compare(delivery, receiver.got.filter(isOwn), hasKept);
      assert.equal((await ask('DELETE', at)).status, 204);
      assert.equal((await sql`select from webhook_version where webhook_id = ${id}`).length, 0);
    }),
    { numRuns: amountOf('attempt-requests', { all: 60, part: 6 }) },
  );
});

test('after a rotation has ended by time, attempts before its end are shown without their signatures', async () => {
  const { at, path, delivery } = await open();
  await ask('POST', `${at}/rotate_key`, {});
  await retry(delivery);
  const request = async () => requestOf(await read(`${delivery}?attempt=2`));
  assert.equal((await request())['as_sent'], true);
  const purges = createWebhookPurges({ sql: storesOf(sql), retentionDays: 30 });
  const nextYear = new Date(Date.now() + 365 * DAY_MS);
  assert.equal(await purges.find(({ name }) => name === 'rotated_keys')?.purge(100, nextYear), 1);
  assert.equal((await request())['as_sent'], false);
  const got = receiver.got.filter((one) => one.path === path);
  await compare(delivery, got, false);
});

test('of the webhook of an app, whose key is not in the webhook, signatures are shown until the key is replaced', async () => {
  const declared = {
    name: 'Gadget',
    redirect_uris: ['https://app.example.com/cb'],
    webhook_url: `${receiver.url}/app`,
  };
  const { body: client } = await ask('POST', '/clients', declared, platformToken);
  const clientId = String(client['client_id']);
  const { access_token: token } = await letAppIn(app, { clientId, userId: app.userId, storeId, now: app.clock.now() });
  const [row] = await sql<{ id: number }[]>`select id from webhook where is_for_app`;
  const { body: sample } = await ask('POST', `/webhooks/${row?.id}/test`, {}, token);
  const sent = async () => requestOf(await read(sample._links['svc:status']?.href ?? '', token))['as_sent'];
  assert.equal(await sent(), true);
  // A new key of the app raises the revision of its webhooks, and changes nothing else of them.
  await sql`update webhook set revision = revision + 1 where is_for_app`;
  assert.equal(await sent(), false);
});

test('secrets of earlier settings are sealed, and shown only to those who may read the key', async () => {
  const { at, id, path, delivery } = await open();
  const url = `${receiver.url}${path}?token=secret-of-url`;
  await ask('PATCH', at, { url, headers: { 'X-Token': 'secret-of-header' } });
  await retry(delivery);
  await ask('PATCH', at, { url: `${receiver.url}${path}/open`, headers: {} });
  const second = `${delivery}?attempt=2`;
  const [own, others] = [await read(second), await read(second, platformToken)].map((one) =>
    JSON.stringify(requestOf(one)),
  );
  assert.match(own ?? '', /secret-of-url.*secret-of-header/);
  assert.doesNotMatch(others ?? '', /secret-/);
  assert.match(others ?? '', /token=\*\*\*.*x-token: \*\*\*/i);
  const rows =
    await sql`select *, encode(request_secrets, 'escape') as text from webhook_version where webhook_id = ${id}`;
  assert.equal(rows.length, 2);
  assert.doesNotMatch(JSON.stringify(rows), /secret-/);
  for (const [query, refused] of [
    ['?attempt=99', 404],
    ['?attempt=x', 404],
    ['?attempt=1&attempt=1', 400],
  ] as const)
    assert.equal((await ask('GET', delivery + query)).status, refused, query);
});

test('of an erased event the url of each attempt remains', async () => {
  const { at, path, delivery } = await open();
  await ask('PATCH', at, { url: `${receiver.url}${path}/later` });
  assert.equal((await ask('DELETE', `/stores/${storeId}/customers/${webhooks}`, undefined, platformToken)).status, 204);
  const { url, headers, body, as_sent } = requestOf(await read(`${delivery}?attempt=1`)) as Record<string, unknown>;
  assert.deepEqual([url, headers, body, as_sent], [receiver.url + path, null, null, false]);
});

/** Returns the path and whether it is the request as sent. */
const shownAt = async (delivery: string): Promise<[string, unknown]> => {
  const request = requestOf(await read(`${delivery}?attempt=1`));
  return [pathOf(request), request['as_sent']];
};
/** Changes the url by a statement that does not name the versions, as a process of the version before does. */
const move = (id: number, url: string) => sql`
  update webhook set url = ${url}, revision = revision + 1, date_modified = ${app.clock.now()} where id = ${id}`;

test('of a webhook the last hundred versions are kept, and an attempt before them says that its settings are not known', async () => {
  const { id, path, delivery } = await open();
  for (let n = 1; n <= 100; n += 1) await move(id, `${receiver.url}${path}/${n}`);
  assert.deepEqual(await shownAt(delivery), [path, true]);
  await move(id, `${receiver.url}${path}/101`);
  assert.deepEqual(await shownAt(delivery), [`${path}/101`, false]);
  assert.match(String(requestOf(await read(`${delivery}?attempt=1`))['note']), /as it would be sent now/);
  assert.equal((await sql`select from webhook_version where webhook_id = ${id}`).length, 100);
});

test('a version is deleted when the attempts with it are, and not a second before', async () => {
  const { id, path, delivery } = await open();
  await move(id, `${receiver.url}${path}/later`);
  const [row] = await sql<{ at: Date }[]>`select date_replaced as at from webhook_version where webhook_id = ${id}`;
  const purges = createWebhookPurges({ sql: storesOf(sql), retentionDays: 30 });
  const purgeAt = (ms: number) =>
    purges.find(({ name }) => name === 'webhook_versions')?.purge(1_000, new Date((row?.at.getTime() ?? 0) + ms));
  await purgeAt(31 * DAY_MS - 1_000);
  assert.deepEqual(await shownAt(delivery), [path, true]);
  await purgeAt(31 * DAY_MS);
  assert.deepEqual(await shownAt(delivery), [`${path}/later`, false]);
});
