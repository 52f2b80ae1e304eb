/** The page of a webhook that does not work shows the reason and the next step. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const receiver = await startReceiver();
let status = 500;
receiver.answer((_got, response) => response.writeHead(status).end());

async function make(): Promise<string> {
  const body = {
    name: 'a',
    url: receiver.url,
    format: 'json',
    encryption_key: 'k'.repeat(20),
    event_resource: 'customer',
  };
  const made = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body });
  return `/webhooks/${String(((await made.json()) as { id: number }).id)}`;
}
async function publish(id: number): Promise<void> {
  const body = { event: 'customer/created', resource: { id } };
  const { status: answered } = await app.api('POST', `/stores/${app.storeId}/events`, {
    body,
    token: app.platformToken,
  });
  assert.equal(answered, 201);
}
async function adviceAt(path: string): Promise<string> {
  const page = await (await app.api('GET', path, { headers: { Accept: 'text/html' } })).text();
  const [, advice = ''] = /<div class="alert">(.*?)<\/div>/s.exec(page) ?? [];
  return advice.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');
}
const says = (path: string, words: RegExp) =>
  until(
    () => adviceAt(path),
    (advice) => words.test(advice),
  );
const set = (path: string, is_active: '0' | '1') => app.api('PATCH', path, { body: { is_active } });

test('the page of a webhook shows why deliveries fail, that it was disabled, by which actor, and how to continue', async () => {
  const at = await make();
  assert.equal(await adviceAt(at), '');
  await publish(1);
  await says(at, /^One attempt failed.* 500: .*Retries continue/);
  status = 410;
  await publish(2);
  const off = await says(at, /^Halcyon disabled this webhook/);
  assert.match(off, / 410.*enable this webhook.*recover what was missed/);
  assert.equal(await adviceAt(`${at}/health`), off);
  await set(at, '1');
  assert.match(await adviceAt(at), /^This webhook is enabled again\. .*recover /);
  await set(at, '0');
  assert.match(await adviceAt(at), /^This webhook is disabled: /);
});

test('a webhook that can be sent nothing says so: when it is created, when it is read, in lists and on its page', async () => {
  type Webhook = { id: number; state: string; reason: string | null };
  const create = async (more: object): Promise<Webhook> => {
    const body = { name: 'never', format: 'json', encryption_key: 'k'.repeat(20), ...more };
    return (await app.api('POST', `/stores/${app.storeId}/webhooks`, { body })).json() as Promise<Webhook>;
  };
  const cases = [
    [await create({ url: receiver.url }), /no events/, { event_resource: 'customer' }],
    [await create({ event_resource: 'customer' }), /no url/, { url: receiver.url }],
  ] as const;
  for (const [created, words, change] of cases) {
    const path = `/webhooks/${created.id}`;
    assert.equal(created.state, 'inactive');
    assert.match(created.reason ?? '', words);
    const health = (await (await app.api('GET', `${path}/health`)).json()) as Webhook;
    assert.deepEqual([health.state, health.reason], ['inactive', created.reason]);
    const listed = await (await app.api('GET', `/stores/${app.storeId}/webhooks?state=inactive&limit=300`)).text();
    assert.ok(listed.includes(`/webhooks/${created.id}"`));
    assert.match(await adviceAt(path), words);
    const changed = (await (await app.api('PATCH', path, { body: change })).json()) as Webhook;
    assert.deepEqual([changed.state, changed.reason], ['ok', null]);
    assert.equal(await adviceAt(path), '');
  }
});
