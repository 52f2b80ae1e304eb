/** Which webhooks receive entries of the changelog, and which values the entries never contain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPERATOR } from '#changelog/changelog.ts';
import { transaction } from '#db/pool.ts';
import { addMemberWithEntry } from '#stores/audited-changes.ts';
import { memberAccessOf } from '#identity/oauth/connected/connected.ts';
import { openEffects } from '../setup/grant-access.ts';
import { changeHome } from '../setup/suite-map.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';

const app = await startTestApp();
const { api, sql, storeId, baseUrl } = app;
const receiver = await startReceiver();
const STORE = `/stores/${storeId}`;

type Json = Record<string, unknown>;

async function make(settings: Json): Promise<{ id: number; path: string }> {
  const body = { name: 'Watch', format: 'json', encryption_key: 'kept', ...settings };
  const response = await api('POST', `${STORE}/webhooks`, { body });
  assert.equal(response.status, 201);
  const id = Number(((await response.json()) as Json)['id']);
  return { id, path: `/webhooks/${id}` };
}
const watch = (path: string) => make({ url: receiver.url + path, event_resource: 'changelog' });
const change = async (path: string, body: Json) => assert.equal((await api('PATCH', path, { body })).status, 200);

/** Returns the deliveries written for a webhook, sent or not. */
async function deliveriesOf(webhookId: number): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select (select count(*) from delivery where webhook_id = ${webhookId})
      + (select count(*) from delivery_done where webhook_id = ${webhookId}) as n`;
  return row?.n ?? 0;
}
const receivedAt = (path: string) => receiver.got.filter((got) => got.path === path);
const bodyOf = (got: { body: Buffer } | undefined) => JSON.parse(String(got?.body)) as Json;

test('a webhook for the changelog receives the entry of its own creation, equal to GET of the entry', async () => {
  const before = receiver.got.length;
  const { id } = await watch('/own');
  await receiver.until(before + 1);
  const [got] = receivedAt('/own');
  assert.equal(got?.headers['service-webhook-event'], 'changelog/created');
  const body = bodyOf(got);
  assert.deepEqual([body['resource'], body['resource_id'], body['action']], ['webhook', id, 'created']);
  const read = await api('GET', `${STORE}/changelogs/${String(body['id'])}`);
  assert.equal(String(got.body), await read.text());
  await api('DELETE', `/webhooks/${id}`);
});

test('it receives changes by others, also those of a command beside the server', async () => {
  const had = receiver.got.length;
  const { id } = await watch('/others');
  await receiver.until(had + 1);
  const before = receiver.got.length;
  await changeHome(sql, async (home) => {
    const effects = await openEffects(home, baseUrl);
    const by = {
      changelog: effects.changelog,
      access: memberAccessOf(effects),
      actor: OPERATOR,
      now: app.clock.now(),
    };
    return transaction(home, (tx) => addMemberWithEntry(tx, { storeId, userId: app.userId, role: 'member' }, by));
  });
  await receiver.until(before + 1);
  const last = bodyOf(receivedAt('/others').at(-1));
  assert.deepEqual([last['actor'], last['resource'], last['after']], ['operator', 'member', { role: 'member' }]);
  await api('DELETE', `/webhooks/${id}`);
});

test('a webhook that was disabled or deleted receives no entry, and an enabled one does', async () => {
  const [off, gone, stays] = [await watch('/off'), await watch('/gone'), await watch('/stays')];
  const [offHad, goneHad, staysHad] = [
    await deliveriesOf(off.id),
    await deliveriesOf(gone.id),
    await deliveriesOf(stays.id),
  ];
  await change(off.path, { is_active: '0' });
  assert.equal((await deliveriesOf(gone.id)) - goneHad, 1);
  await api('DELETE', gone.path);
  assert.equal((await deliveriesOf(off.id)) - offHad, 0);
  assert.equal((await deliveriesOf(gone.id)) - goneHad, 1);
  assert.equal((await deliveriesOf(stays.id)) - staysHad, 2);
  await change(off.path, { is_active: '1' });
  assert.equal((await deliveriesOf(off.id)) - offHad, 1);
  await api('DELETE', off.path);
  await api('DELETE', stays.path);
});

const SECRETS = {
  key: 'first-key-7f3a',
  newKey: 'second-key-91bc',
  header: 'header-value-55d0',
  newHeader: 'header-value-e812',
  token: 'query-token-3c6f',
  newToken: 'query-token-a04d',
  path: 'path-credential-b8e2',
  newPath: 'path-credential-60d7',
};

test('keys, header values, paths and queries of urls appear nowhere in an entry', async () => {
  const origin = 'http://127.0.0.1:9';
  const urlOf = (path: string, token: string) => `${origin}/services/${path}?token=${token}`;
  const headers = { 'X-Api-Key': SECRETS.header, constructor: 'x' };
  const settings = { url: urlOf(SECRETS.path, SECRETS.token), encryption_key: SECRETS.key, headers };
  const { path } = await make(settings);
  await change(path, { encryption_key: SECRETS.newKey });
  await change(path, { url: urlOf(SECRETS.path, SECRETS.newToken) });
  await change(path, { url: urlOf(SECRETS.newPath, SECRETS.newToken) });
  await change(path, { headers: { 'X-Api-Key': SECRETS.newHeader, constructor: 'x', 'X-More': SECRETS.header } });
  await change(path, { headers: {}, url: origin, format: 'partner_automation', encryption_key: '' });
  await api('DELETE', path);

  const written = await sql<{ body: string }[]>`
    select body from resource where type = 'changelog' union all select body from event where resource_type = 'changelog'`;
  const all = written.map(({ body }) => body).join('\n');
  for (const [name, secret] of Object.entries(SECRETS)) assert.ok(!all.includes(secret), name);

  const listed = await api('GET', `${STORE}/changelogs?resource_id=${path.split('/').at(-1)}&limit=300&order=id`);
  const { _embedded } = (await listed.json()) as { _embedded: { 'svc:changelogs': Json[] } };
  const said = _embedded['svc:changelogs'].slice(1, -1).map(({ before, after }) => ({ before, after }));
  const names = { 'X-Api-Key': 'set', constructor: 'set' };
  const changed = { 'X-Api-Key': 'replaced', 'X-More': 'set', constructor: 'set' };
  const later = { ...changed, 'X-Api-Key': 'set' };
  assert.deepEqual(said, [
    { before: { encryption_key: 'set' }, after: { encryption_key: 'replaced' } },
    { before: { url: `${origin}/(set)` }, after: { url: `${origin}/(replaced)` } },
    { before: { url: `${origin}/(set)` }, after: { url: `${origin}/(replaced)` } },
    { before: { headers: names }, after: { headers: changed } },
    {
      before: { format: 'json', url: `${origin}/(set)`, encryption_key: 'set', headers: later },
      after: { format: 'partner_automation', url: origin, encryption_key: 'removed', headers: {} },
    },
  ]);
});

/** Returns what the changelog shows of a url that replaces another. */
const MOVES: [from: string, to: string, before: string, after: string][] = [
  [
    'https://a.example.com/one',
    'https://b.example.com/one',
    'https://a.example.com/(set)',
    'https://b.example.com/(set)',
  ],
  ['https://a.example.com', 'https://a.example.com/', 'https://a.example.com', 'https://a.example.com/'],
  ['https://a.example.com/', 'https://a.example.com?x=1', 'https://a.example.com/', 'https://a.example.com/(set)'],
];

test('for a changed url the changelog shows the origin, and whether the rest changed', async () => {
  const { id, path } = await make({ url: receiver.url, is_active: '0' });
  for (const [from, to, before, after] of MOVES) {
    await change(path, { url: from });
    await change(path, { url: to });
    const [last] = await sql<{ body: string }[]>`
      select body from event where resource_type = 'changelog' and body::json->>'resource_id' = ${String(id)}
      order by id desc limit 1`;
    const entry = JSON.parse(last?.body ?? '{}') as Json;
    assert.deepEqual([entry['before'], entry['after']], [{ url: before }, { url: after }]);
  }
});
