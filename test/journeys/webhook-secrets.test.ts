/**
 * The secrets of a webhook: its key, its headers and the query of its url are sealed at rest, shown to the roles that may see them, and kept by the others.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { faultsIn, minimal, startWebhookApi, type Token } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';

async function createWithKey() {
  const { body } = await call('POST', path, { body: { ...minimal, encryption_key: KEY } });
  return `/webhooks/${String(body['id'])}`;
}
const keySeenBy = async (token: Token, at: string) => (await call('GET', at, { token })).body['encryption_key'];

// The encryption key

test('the key is nowhere in the row', async () => {
  await createWithKey();
  // The text of a row has its bytes as hex.
  const [row] = await sql<{ text: string }[]>`select w::text as text from webhook w`;
  const text = row?.text ?? '';
  assert.ok(text.includes('Orders'));
  for (const spelling of [KEY, Buffer.from(KEY).toString('hex'), Buffer.from(KEY).toString('base64')]) {
    assert.ok(!text.includes(spelling), `the row holds ${spelling}`);
  }
});

test('two webhooks with one key do not show it, and a sealed key does not open in another row', async () => {
  const [first, second] = [await createWithKey(), await createWithKey()];
  const rows = await sql<{ id: number; key: Buffer }[]>`
    select id, encryption_key as key from webhook where id = any (${[first, second].map((at) => Number(at.slice(10)))})`;
  assert.notDeepEqual(rows[0]?.key, rows[1]?.key);
  await sql`update webhook set encryption_key = ${rows[0]?.key ?? null} where id = ${rows[1]?.id ?? 0}`;
  const stolen = await call('GET', `/webhooks/${rows[1]?.id ?? 0}`);
  assert.deepEqual([stolen.status, stolen.body['encryption_key']], [200, null]);
});

test('the client that created the webhook sees the key, and no other does', async () => {
  const at = await createWithKey();
  assert.equal(await keySeenBy('a', at), KEY);
  for (const token of ['a-other', 'user', 'platform'] as const) assert.equal(await keySeenBy(token, at), null, token);
  const { body } = await call('GET', path, { token: 'a-other' });
  assert.ok(!JSON.stringify(body).includes(KEY));
});

test('null from a client that cannot see the key keeps it, also in a representation that was read and put back', async () => {
  const at = await createWithKey();
  const { body: read } = await call('GET', at, { token: 'a-other' });
  const put = await call('PUT', at, { token: 'a-other', body: { ...read, name: 'By the other' } });
  assert.deepEqual([put.status, put.body['encryption_key'], put.body['name']], [200, null, 'By the other']);
  const patch = await call('PATCH', at, { token: 'a-other', body: { encryption_key: null } });
  assert.equal(patch.status, 200);
  assert.equal(await keySeenBy('a', at), KEY);
});

test('null from the client that sees the key clears it, if the format works without', async () => {
  const at = await createWithKey();
  const cleared = { encryption_key: null };
  assert.deepEqual(faultsIn(await call('PATCH', at, { body: cleared })), ['encryption_key required']);
  const { status, body } = await call('PATCH', at, { body: { ...cleared, format: 'partner_automation' } });
  assert.deepEqual([status, body['encryption_key']], [200, null]);
  const back = await call('PATCH', at, { body: { format: 'json' } });
  assert.deepEqual([back.status, ...faultsIn(back)], [400, 'encryption_key required']);
});

test('another client may set a new key, which it then does not see', async () => {
  const at = await createWithKey();
  const { status, body } = await call('PATCH', at, { token: 'a-other', body: { encryption_key: 'another' } });
  assert.deepEqual([status, body['encryption_key']], [200, null]);
  assert.equal(await keySeenBy('a', at), 'another');
});

test('a change of another property leaves the sealed bytes as they are', async () => {
  const at = await createWithKey();
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

// Headers, and the query of the url

const URL = 'https://example.com/hook?token=a-secret-of-the-query&region=north';
const SHOWN = 'https://example.com/hook?token=***&region=***';
const HEADERS = { 'X-Api-Key': 'a-secret-of-the-header', 'X-Team': 'ops' };
const NAMES = { 'X-Api-Key': null, 'X-Team': null };
const OTHERS = ['a-other', 'user', 'platform', 'member'] as const satisfies readonly Token[];

async function create(body: object = {}): Promise<string> {
  const made = await call('POST', path, { body: { ...minimal, url: URL, headers: HEADERS, ...body } });
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.body['id'])}`;
}
const idOf = (at: string): number => Number(at.slice('/webhooks/'.length));
async function seenBy(token: Token, at: string) {
  const { body } = await call('GET', at, { token });
  return { url: body['url'], headers: body['headers'] };
}
/** Returns the whole row as text, whose bytes are in it as hex. */
async function rowOf(at: string): Promise<string> {
  const [row] = await sql<{ text: string }[]>`select w::text as text from webhook w where id = ${idOf(at)}`;
  return row?.text ?? '';
}
const isClear = (row: string): boolean =>
  ['a-secret-of-the-query', 'a-secret-of-the-header'].some(
    (secret) => row.includes(secret) || row.includes(Buffer.from(secret).toString('hex')),
  );

test('neither a value of a header nor the query of the url is in the row', async () => {
  const at = await create();
  assert.match(await rowOf(at), /https:\/\/example\.com\/hook,/);
  assert.ok(!isClear(await rowOf(at)));
  assert.equal((await call('PATCH', at, { body: { headers: { ...HEADERS, 'X-More': 'x' } } })).status, 200);
  assert.ok(!isClear(await rowOf(at)));
});

test('the client that created the webhook and the owner see the values, and no other role does, also in lists', async () => {
  const at = await create();
  for (const token of ['a', 'owner'] as const)
    assert.deepEqual(await seenBy(token, at), { url: URL, headers: HEADERS });
  for (const token of OTHERS) {
    assert.deepEqual(await seenBy(token, at), { url: SHOWN, headers: NAMES }, token);
    for (const accept of ['application/hal+json', 'application/hal+xml', 'application/vnd.siren+json']) {
      for (const address of [at, path]) {
        const { status, text } = await call('GET', address, { token, headers: { Accept: accept } });
        assert.deepEqual([status, /a-secret-of/.test(text), text.includes('X-Api-Key')], [200, false, true], accept);
      }
    }
  }
});

test('no filter reveals the query', async () => {
  await create({ name: 'Filtered' });
  const found = async (filter: string) => {
    const { status, body } = await call('GET', `${path}?name=Filtered&${filter}`, { token: 'a-other' });
    assert.equal(status, 200);
    return body['total_items'];
  };
  assert.equal(await found('url=*hook*'), '1');
  assert.equal(await found('url=*a-secret*'), '0');
});

const KEEPING: readonly (readonly [what: string, body: (shown: Record<string, unknown>) => object])[] = [
  ['omitted', () => ({ name: 'By another' })],
  ['both as shown', ({ url, headers }) => ({ url, headers })],
  ['null for each header', () => ({ headers: { 'x-api-key': null, 'X-TEAM': null } })],
  ['an empty text, as a form and XML have it', () => ({ headers: { 'X-Api-Key': '', 'X-Team': '' } })],
];
for (const [what, body] of KEEPING) {
  test(`a role that does not see the values keeps them: ${what}`, async () => {
    const at = await create();
    const { body: shown } = await call('GET', at, { token: 'a-other' });
    const changed = await call('PATCH', at, { token: 'a-other', body: body(shown) });
    assert.equal(changed.status, 200, changed.text);
    const { url, headers } = await seenBy('a', at);
    const lower = (of: object) =>
      Object.fromEntries(Object.entries(of).map(([name, value]) => [name.toLowerCase(), value]));
    assert.deepEqual([url, lower(headers as object)], [URL, lower(HEADERS)]);
  });
}

for (const token of ['a', ...OTHERS] as const) {
  test(`${token}: sending back what was shown changes nothing, in JSON and in XML`, async () => {
    const at = await create();
    const row = await sql`select url, headers, request_secrets from webhook where id = ${idOf(at)}`;
    const { body } = await call('GET', at, { token });
    const put = await call('PUT', at, { token, body });
    assert.equal(put.status, 200, put.text);
    const xml = (await call('GET', at, { token, headers: { Accept: 'application/xml' } })).text;
    // XML has no null, and an empty key means none.
    const withoutKey = xml.replace(/<encryption_key>.*?<\/encryption_key>/, '');
    const type = { 'Content-Type': 'application/xml' };
    const again = await call('PATCH', at, { token, body: withoutKey, headers: type });
    assert.equal(again.status, 200, again.text);
    assert.deepEqual(await seenBy('a', at), { url: URL, headers: HEADERS });
    const after = await sql`select url, headers, request_secrets from webhook where id = ${idOf(at)}`;
    assert.deepEqual(after, row, 'the sealed bytes stay');
  });
}

test('an unchanged form changes nothing, and one value can be changed alone', async () => {
  const at = await create();
  const form = new URLSearchParams({ url: SHOWN, headers: 'X-Api-Key:\nX-Team: returns' });
  const type = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const { status, text } = await call('PATCH', at, { token: 'a-other', body: form, headers: type });
  assert.equal(status, 200, text);
  assert.deepEqual(await seenBy('a', at), { url: URL, headers: { ...HEADERS, 'X-Team': 'returns' } });
});

test('null for an unknown header is a 400 that names it', async () => {
  const at = await create();
  const headers = { 'X-Team': null, 'X-New': null };
  for (const token of ['a', 'a-other'] as const)
    assert.deepEqual(faultsIn(await call('PATCH', at, { token, body: { headers } })), ['headers.X-New required']);
  const made = await call('POST', path, { body: { ...minimal, headers } });
  assert.deepEqual([made.status, ...faultsIn(made)], [400, 'headers.X-Team required', 'headers.X-New required']);
});

test('a role that sees the values keeps one by null, and an empty value is a value', async () => {
  const at = await create();
  const { status } = await call('PATCH', at, { body: { headers: { 'X-Api-Key': null, 'X-Team': '' } } });
  assert.equal(status, 200);
  assert.deepEqual((await seenBy('a', at)).headers, { 'X-Api-Key': HEADERS['X-Api-Key'], 'X-Team': '' });
});

test('a url with a hidden value other than the one shown is rejected', async () => {
  const at = await create();
  for (const url of [`${SHOWN}&more=1`, SHOWN.replace('/hook', '/other'), 'https://example.com/?token=***']) {
    assert.deepEqual(
      faultsIn(await call('PATCH', at, { token: 'a-other', body: { url, headers: {} } })),
      ['url invalid_value'],
      url,
    );
  }
  const replaced = await call('PATCH', at, {
    token: 'a-other',
    body: { url: 'https://example.com/other?token=theirs', headers: {} },
  });
  assert.deepEqual([replaced.status, replaced.body['url']], [200, 'https://example.com/other?token=***']);
});

test('secrets that cannot be opened any more stay until they are replaced', async () => {
  const at = await create();
  const lost = createSealer(randomBytes(32)).seal('{}', `webhook:${idOf(at)}`);
  await sql`update webhook set request_secrets = ${lost} where id = ${idOf(at)}`;
  assert.deepEqual(await seenBy('a', at), { url: 'https://example.com/hook', headers: NAMES });
  const { body: read } = await call('GET', at);
  const put = await call('PUT', at, { body: { ...read, name: 'Renamed' } });
  assert.deepEqual([put.status, put.body['name']], [200, 'Renamed'], put.text);
  const [row] = await sql<{ sealed: Buffer }[]>`select request_secrets as sealed from webhook where id = ${idOf(at)}`;
  assert.deepEqual(row?.sealed, lost);
  const moved = await call('PATCH', at, { body: { url: URL } });
  assert.deepEqual(faultsIn(moved).toSorted(), ['headers.X-Api-Key required', 'headers.X-Team required']);
  assert.equal((await call('PATCH', at, { body: { url: URL, headers: HEADERS } })).status, 200);
  assert.deepEqual(await seenBy('a', at), { url: URL, headers: HEADERS });
});
