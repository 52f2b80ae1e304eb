/** Retry now: pending deliveries are attempted at once, one by one or together, and after a repair by themselves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import type { Representation } from '../setup/webhook-api.ts';

const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';
const app = await startTestApp();
const { sql, storeId, platformToken } = app;
const receiver = await startReceiver();
/** The status of the answers at each path; a 503 asks for a pause of ten minutes, longer than any test. */
const answers = new Map<string, number>();
receiver.answer(({ path }, response) => {
  const status = answers.get(path) ?? 204;
  response.writeHead(status, status === 503 ? { 'Retry-After': '600' } : {}).end();
});

async function ask(method: string, path: string, body?: object, token?: string) {
  const options = { ...(body && { body }), ...(token !== undefined && { token }) };
  const response = await app.api(method, path, options);
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text || '{}') as Representation };
}

const codeOf = ({ body }: { body: Representation }): unknown => body._embedded['svc:errors']?.[0]?.['code'];
const linkTo = (of: Representation, rel: string): string => of._links[`svc:${rel}`]?.href ?? '';

/** Creates a webhook at a path of its own, for customers. */
async function open(path: string, more: object = {}): Promise<string> {
  const settings = { name: path, format: 'json', encryption_key: KEY, event_resource: 'customer' };
  const made = await ask('POST', `/stores/${storeId}/webhooks`, { ...settings, url: receiver.url + path, ...more });
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.body['id'])}`;
}

/** Deletes the webhook, so that the events of other tests do not reach it. */
const close = async (at: string): Promise<void> => void (await ask('DELETE', at));

async function publish(ids: readonly number[]): Promise<void> {
  const body = ids.map((id) => ({ event: 'customer/created', resource: { id } }));
  assert.equal((await ask('POST', `/stores/${storeId}/events`, body, platformToken)).status, 200);
}

/** The ids of the customers in the requests at a path, in their order. */
const arrivedAt = (path: string): number[] =>
  receiver.got
    .filter((got: Got) => got.path === path)
    .map(({ body }) => (JSON.parse(body.toString()) as { id: number }).id);

const receives = (path: string, count: number): Promise<number[]> =>
  until(
    async () => arrivedAt(path),
    ({ length }) => length >= count,
  );

async function deliveriesOf(at: string): Promise<Representation[]> {
  const { body } = await ask('GET', `${at}/statuses?order=date_created&limit=100`);
  return body._embedded['svc:statuses'] ?? [];
}

/** Waits until that many attempts of pending deliveries are recorded. */
const hasAttempted = (at: string, count: number): Promise<Representation[]> =>
  until(
    async () => deliveriesOf(at),
    (all) => all.reduce((sum, { attempts }) => sum + Number(attempts), 0) >= count,
  );

async function pageOf(at: string, resourceId: number): Promise<Representation> {
  const delivery = (await deliveriesOf(at)).find((one) => one['resource_id'] === String(resourceId));
  const { body } = await ask('GET', delivery?._links['self']?.href ?? '');
  return body;
}

/** Returns a webhook whose endpoint asked for a pause at the first of three deliveries. */
async function paused(path: string): Promise<string> {
  answers.set(path, 503);
  const at = await open(path);
  await publish([1, 2, 3]);
  await until(
    async () => (await ask('GET', at)).body['state'],
    (state) => state === 'paused',
  );
  return at;
}

test('the chosen delivery of a failing webhook is attempted next, before those that wait longer', async () => {
  answers.set('/failing', 500);
  const at = await open('/failing');
  await publish([1, 2, 3, 4, 5, 6, 7, 8]);
  await hasAttempted(at, 5);
  const waiting = await pageOf(at, 8);
  assert.equal(waiting['attempts'], 0);
  const retried = await ask('POST', linkTo(waiting, 'retry'), {});
  assert.equal(retried.status, 202, retried.text);
  assert.equal((await receives('/failing', 6)).at(-1), 8);
  await hasAttempted(at, 6);
  assert.equal((await pageOf(at, 8))['attempts'], 1);
  // One that was attempted and is not due yet.
  answers.set('/failing', 204);
  const early = (await deliveriesOf(at)).find((one) => one['attempts'] === 1 && one['resource_id'] !== '8');
  const earlyId = Number(early?.['resource_id']);
  await ask('POST', linkTo(await pageOf(at, earlyId), 'retry'), {});
  assert.equal((await receives('/failing', 7))[6], earlyId);
  const arrived = await until(
    async () => pageOf(at, earlyId),
    ({ status }) => status === 'successful',
  );
  assert.equal(arrived['attempts'], 2);
  await close(at);
});

test('all pending deliveries of a paused webhook are attempted at once', async () => {
  const at = await paused('/paused');
  const attempted = arrivedAt('/paused').length;
  answers.set('/paused', 204);
  const { body: webhook } = await ask('GET', at);
  const retried = await ask('POST', linkTo(webhook, 'retry_pending'), {});
  assert.deepEqual([retried.status, retried.body['state']], [202, 'ok']);
  await receives('/paused', attempted + 3);
  assert.deepEqual(new Set(arrivedAt('/paused').slice(attempted)), new Set([1, 2, 3]));
  await close(at);
});

test('after a change of the url the pending deliveries are attempted at the new one', async () => {
  const at = await paused('/old');
  assert.equal((await ask('PATCH', at, { url: `${receiver.url}/new` })).status, 200);
  assert.deepEqual(new Set(await receives('/new', 3)), new Set([1, 2, 3]));
  await close(at);
});

test('a change of other settings leaves the pause of the endpoint', async () => {
  const at = await paused('/renamed');
  assert.equal((await ask('PATCH', at, { name: 'Renamed' })).status, 200);
  assert.equal((await ask('GET', at)).body['state'], 'paused');
  await close(at);
});

test('after a successful test the pending deliveries of a paused webhook are attempted, after a failed one none', async () => {
  const at = await paused('/tested');
  answers.set('/tested', 500);
  assert.equal((await ask('POST', `${at}/test`, {})).status, 200);
  assert.equal((await ask('GET', at)).body['state'], 'paused');
  answers.set('/tested', 204);
  const before = arrivedAt('/tested').length;
  assert.equal((await ask('POST', `${at}/test`, {})).status, 200);
  await receives('/tested', before + 4);
  assert.deepEqual(new Set(arrivedAt('/tested').slice(before + 1)), new Set([1, 2, 3]));
  await close(at);
});

test('a successful test leaves the due times of a working webhook, whose endpoint rejects one delivery', async () => {
  answers.set('/rejects', 500);
  const at = await open('/rejects');
  await publish([1]);
  await hasAttempted(at, 1);
  answers.set('/rejects', 204);
  await publish([2]);
  await until(
    async () => (await ask('GET', at)).body['state'],
    (state) => state === 'ok',
  );
  const due = (await pageOf(at, 1))['date_next'];
  assert.equal((await ask('POST', `${at}/test`, {})).status, 200);
  assert.equal((await pageOf(at, 1))['date_next'], due);
  await close(at);
});

test('what cannot be retried is refused, and says why', async () => {
  const at = await open('/ended');
  await publish([1]);
  const arrived = await until(
    async () => pageOf(at, 1),
    ({ status }) => status === 'successful',
  );
  assert.equal(linkTo(arrived, 'retry'), '');
  const ended = await ask('POST', `${arrived._links['self']?.href ?? ''}/retry`, {});
  assert.deepEqual([ended.status, codeOf(ended)], [409, 'not_pending']);
  await ask('PATCH', at, { is_active: '0' });
  const disabled = await ask('POST', `${at}/retry_pending`, {});
  assert.deepEqual([disabled.status, codeOf(disabled)], [409, 'inactive']);
  const held = await open('/held', { url: null, is_held: '1' });
  const pull = await ask('POST', `${held}/retry_pending`, {});
  assert.deepEqual([pull.status, codeOf(pull)], [409, 'is_held']);
  await close(held);
  await close(at);
});

test('a delivery that is due within seconds keeps its row, which a worker may be recording', async () => {
  const at = await paused('/soon');
  const ids = await sql<
    { id: number }[]
  >`select id from delivery where webhook_id = ${Number(at.split('/').at(-1))} order by id`;
  assert.equal(ids.length, 3);
  const [near, far] = [new Date(Date.now() + 5_000), new Date(Date.now() + 300_000)];
  await sql`update delivery set due_at = case when id = ${ids[0]?.id ?? 0} then ${near}::timestamptz else ${far} end
    where id = any(${ids.map(({ id }) => id)}::bigint[])`;
  assert.equal((await ask('POST', `${at}/retry_pending`, {})).status, 202);
  const rows = await sql<{ id: number; dueAt: Date }[]>`
    select id, due_at as "dueAt" from delivery where id = any(${ids.map(({ id }) => id)}::bigint[]) order by id`;
  assert.deepEqual(rows[0]?.dueAt, near);
  await close(at);
});
