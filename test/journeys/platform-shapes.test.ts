/** A platform publishes in its own shape (MAPPING_FILE), and has collections with plurals of their own (EVENTS_FILE). */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { declareFile } from '#catalog/own/events-file.ts';
import { declareMappings } from '#catalog/own/mapping-file.ts';
import { startTestApp } from '../setup/app.ts';
import { runCommand } from '../setup/command.ts';

type Json = Record<string, unknown>;

const folder = await mkdtemp(join(tmpdir(), 'halcyon-shapes-'));
after(() => rm(folder, { recursive: true }));
// Types and mappings are those of the process, and files of tests share processes.
after(() => declareFile(undefined));
after(() => declareMappings(undefined));
const EVENTS_FILE = join(folder, 'events.json');
const MAPPING_FILE = join(import.meta.dirname, '../../docs/platforms/stripe.json');
const category = {
  title: 'A category',
  description: 'A group of products.',
  plural: 'categories',
  events: { created: { when: 'A category is made.', since: '1' } },
  example: { id: 7, name: 'Tea' },
};
await writeFile(EVENTS_FILE, JSON.stringify({ resources: { category } }));

const app = await startTestApp({ env: { EVENTS_FILE, MAPPING_FILE } });
const { api, storeId, platformToken: token } = app;
const at = `/stores/${storeId}`;

async function publish(event: string, resource: Json): Promise<Json> {
  const answer = await api('POST', `${at}/events`, { token, body: { event, resource } });
  const json = (await answer.json()) as Json;
  assert.equal(answer.status, 201, JSON.stringify(json));
  return json;
}
async function get(path: string): Promise<{ status: number; json: Json }> {
  const answer = await api('GET', at + path);
  return { status: answer.status, json: (await answer.json()) as Json };
}

const subscription = {
  id: 'sub_1',
  object: 'subscription',
  currency: 'eur',
  status: 'active',
  start_date: 1_772_323_200,
  items: { data: [{ price: { unit_amount: 1999, recurring: { interval: 'month', interval_count: 1 } }, quantity: 2 }] },
};

test('steps are those of the mapped members, and the resource is served as published', async () => {
  await publish('subscription/created', subscription);
  await publish('subscription/modified', { ...subscription, status: 'canceled', ended_at: 1_775_001_600 });
  const { json } = await get('/subscription_events?subscription_id=sub_1&zoom=subscription');
  const steps = (json['_embedded'] as Record<string, Json[]>)['svc:subscription_events'] ?? [];
  assert.deepEqual(
    steps.map((step) => step['event']),
    ['activated', 'cancelled'],
  );
  const copies = steps.map((step) => Object.values(step['_embedded'] as Record<string, Json>)[0]?.['status']);
  assert.deepEqual(copies, ['active', 'canceled']);
  const { _links, ...served } = (await get('/subscriptions/sub_1')).json;
  assert.deepEqual(served, { ...subscription, status: 'canceled', ended_at: 1_775_001_600 });
});

test('a value that is not mapped is a warning with the event, and derives nothing', async () => {
  const event = await publish('subscription/created', { ...subscription, id: 'sub_2', status: 'melted' });
  const [warning] = event['warnings'] as Json[];
  assert.deepEqual([warning?.['code'], warning?.['field']], ['unknown_value', 'resource.status']);
  assert.match(String(warning?.['message']), /"melted"/);
  const known = await publish('subscription/modified', { ...subscription, id: 'sub_2' });
  assert.equal(known['warnings'], undefined);
  for (const status of ['active', 'melted', 'active', 'canceled'])
    await publish('subscription/modified', { ...subscription, id: 'sub_3', status });
  const { json } = await get('/subscription_events?subscription_id=sub_3');
  const steps = Object.values(json['_embedded'] as Record<string, Json[]>).flat();
  assert.deepEqual(
    steps.map((step) => step['event']),
    ['activated', 'cancelled'],
  );
});

test('the mark of a deletion deletes', async () => {
  await publish('customer/created', { id: 'cus_1', email: 'ada@example.com' });
  const event = await publish('customer/modified', { id: 'cus_1', email: 'ada@example.com', deleted: true });
  assert.equal(event['event'], 'customer/deleted');
  assert.equal((await get('/customers/cus_1')).status, 410);
  assert.doesNotMatch(JSON.stringify((await get(`/events/${String(event['id'])}/payload`)).json), /ada@/);
});

test('a collection has the plural that the operator gives it', async () => {
  await publish('category/created', { id: 7, name: 'Tea' });
  const { status, json } = await get('/categories');
  assert.deepEqual([status, json['total_items']], [200, '1']);
  const [item] = Object.values(json['_embedded'] as Record<string, Json[]>).flat();
  assert.match(JSON.stringify(item?.['_links']), /\/categories\/7"/);
  assert.equal((await get('/categorys')).status, 404);
  const refused = await api('POST', `${at}/events`, { token, body: { event: 'product/created', resource: { id: 1 } } });
  const text = await refused.text();
  assert.ok(refused.status === 400 && text.includes('EVENTS_FILE') && text.includes(EVENTS_FILE), text);
});

test('a mapping that is wrong stops the start, and says where', async () => {
  const wrong = join(folder, 'wrong.json');
  await writeFile(wrong, JSON.stringify({ resources: { subscription: { is_active: 'status' } } }));
  const { code, out, err } = await runCommand(['doctor'], { MAPPING_FILE: wrong });
  assert.notEqual(code, 0);
  assert.match(out + err, /MAPPING_FILE is ".*wrong\.json": \/resources\/subscription\/is_active/);
});
