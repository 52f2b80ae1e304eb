/** The encryption key: sealed at rest, shown to the client that set it, kept by clients that cannot see it. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { faultsIn, minimal, startWebhookApi, type Token } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';

async function create() {
  const { body } = await call('POST', path, { body: { ...minimal, encryption_key: KEY } });
  return `/webhooks/${String(body['id'])}`;
}
const keySeenBy = async (token: Token, at: string) => (await call('GET', at, { token })).body['encryption_key'];

test('the key is nowhere in the row', async () => {
  await create();
  // The text of a row has its bytes as hex.
  const [row] = await sql<{ text: string }[]>`select w::text as text from webhook w`;
  const text = row?.text ?? '';
  assert.ok(text.includes('Orders'));
  for (const spelling of [KEY, Buffer.from(KEY).toString('hex'), Buffer.from(KEY).toString('base64')]) {
    assert.ok(!text.includes(spelling), `the row holds ${spelling}`);
  }
});

test('two webhooks with one key do not show it, and a sealed key does not open in another row', async () => {
  const [first, second] = [await create(), await create()];
  const rows = await sql<{ id: number; key: Buffer }[]>`
    select id, encryption_key as key from webhook where id = any (${[first, second].map((at) => Number(at.slice(10)))})`;
  assert.notDeepEqual(rows[0]?.key, rows[1]?.key);
  await sql`update webhook set encryption_key = ${rows[0]?.key ?? null} where id = ${rows[1]?.id ?? 0}`;
  const stolen = await call('GET', `/webhooks/${rows[1]?.id ?? 0}`);
  assert.deepEqual([stolen.status, stolen.body['encryption_key']], [200, null]);
});

test('the client that created the webhook sees the key, and no other does', async () => {
  const at = await create();
  assert.equal(await keySeenBy('a', at), KEY);
  for (const token of ['a-other', 'user', 'platform'] as const) assert.equal(await keySeenBy(token, at), null, token);
  const { body } = await call('GET', path, { token: 'a-other' });
  assert.ok(!JSON.stringify(body).includes(KEY));
});

test('null from a client that cannot see the key keeps it, also in a representation that was read and put back', async () => {
  const at = await create();
  const { body: read } = await call('GET', at, { token: 'a-other' });
  const put = await call('PUT', at, { token: 'a-other', body: { ...read, name: 'By the other' } });
  assert.deepEqual([put.status, put.body['encryption_key'], put.body['name']], [200, null, 'By the other']);
  const patch = await call('PATCH', at, { token: 'a-other', body: { encryption_key: null } });
  assert.equal(patch.status, 200);
  assert.equal(await keySeenBy('a', at), KEY);
});

test('null from the client that sees the key clears it, if the format works without', async () => {
  const at = await create();
  const cleared = { encryption_key: null };
  assert.deepEqual(faultsIn(await call('PATCH', at, { body: cleared })), ['encryption_key required']);
  const { status, body } = await call('PATCH', at, { body: { ...cleared, format: 'partner_automation' } });
  assert.deepEqual([status, body['encryption_key']], [200, null]);
  const back = await call('PATCH', at, { body: { format: 'json' } });
  assert.deepEqual([back.status, ...faultsIn(back)], [400, 'encryption_key required']);
});

test('another client may set a new key, which it then does not see', async () => {
  const at = await create();
  const { status, body } = await call('PATCH', at, { token: 'a-other', body: { encryption_key: 'another' } });
  assert.deepEqual([status, body['encryption_key']], [200, null]);
  assert.equal(await keySeenBy('a', at), 'another');
});

test('a change of another property leaves the sealed bytes as they are', async () => {
  const at = await create();
  const id = Number(at.slice('/webhooks/'.length));
  const [before] = await sql`select encryption_key from webhook where id = ${id}`;
  await call('PATCH', at, { body: { name: 'x' } });
  const [after] = await sql`select encryption_key from webhook where id = ${id}`;
  assert.deepEqual(after, before);
});

test('a webhook whose key is lost is shown without it, does not break lists, and takes a new one', async () => {
  const [lost, sound] = await Promise.all(
    ['lost', 'sound'].map(async (encryption_key) => {
      const { body } = await call('POST', path, { body: { ...minimal, encryption_key } });
      return String(body['id']);
    }),
  );
  const at = `/webhooks/${lost}`;
  const sealed = createSealer(randomBytes(32)).seal('lost', `webhook:${lost}`);
  await sql`update webhook set encryption_key = ${sealed} where id = ${Number(lost)}`;

  const shown = await call('GET', at);
  assert.deepEqual([shown.status, shown.body['encryption_key']], [200, null], shown.text);
  const { status, body } = await call('GET', path);
  const listed = (body._embedded['svc:webhooks'] ?? []).map((one) => [one['id'], one['encryption_key']]);
  assert.deepEqual([status, new Map(listed as [unknown, unknown][]).get(Number(sound))], [200, 'sound']);

  const renamed = await call('PATCH', at, { body: { name: 'Renamed' } });
  assert.deepEqual([renamed.status, renamed.body['encryption_key']], [200, null]);
  const [row] = await sql<{ key: Buffer }[]>`select encryption_key as key from webhook where id = ${Number(lost)}`;
  assert.deepEqual(row?.key, sealed, 'with the former secret key it can be opened again');
  const mended = await call('PATCH', at, { body: { encryption_key: 'new' } });
  assert.deepEqual([mended.status, mended.body['encryption_key']], [200, 'new']);
});
