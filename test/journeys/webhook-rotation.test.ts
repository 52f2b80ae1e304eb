/** A key replaces another on the webhook resource: which roles may rotate, what is shown, and what ends a rotation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWebhookPurges } from '#webhooks/webhook-purges-sql.ts';
import { faultsIn, minimal, startWebhookApi, type Reply } from '../setup/webhook-api.ts';

const { call, sql, a, clock, changed, newKeys } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const HOUR_MS = 3_600_000;
const GENERATED = /^whsec_[A-Za-z0-9+/]{43}=$/;

async function create(body: object = {}): Promise<string> {
  const reply = await call('POST', path, { body: { ...minimal, encryption_key: 'old', ...body } });
  assert.equal(reply.status, 201, reply.text);
  return `/webhooks/${String(reply.body['id'])}`;
}
const rotate = (at: string, body: object = {}, ask: Parameters<typeof call>[2] = {}) =>
  call('POST', `${at}/rotate_key`, { body, ...ask });
const keysIn = ({ body }: Reply) => [body['encryption_key'], body['next_encryption_key'], body['rotation_ends']];
const pass = (hours: number) => void (clock.time = new Date(clock.time.getTime() + hours * HOUR_MS));
const ALONE = (key: string | null) => [key, null, null];

test('a rotation shows two keys for 24 hours, and then the new one alone, whether or not retention has run', async () => {
  const at = await create();
  changed.length = 0;
  const begun = await rotate(at);
  const next = String(begun.body['next_encryption_key']);
  assert.match(next, GENERATED);
  assert.deepEqual([begun.status, ...keysIn(begun)], [200, 'old', next, '2026-07-02T12:00:00+0200']);
  assert.deepEqual((await call('GET', at)).body, begun.body);
  assert.equal(changed.length, 1, 'the workers are notified');
  const ending = `${path}?rotation_ends:greaterthan=2026-07-02T11:59:00%2B0200`;
  assert.equal((await call('GET', ending)).body['total_items'], '1');
  pass(24);
  const ended = await call('GET', at);
  assert.deepEqual(keysIn(ended), ALONE(next));
  assert.notEqual(ended.headers.get('etag'), begun.headers.get('etag'));
  assert.equal((await call('GET', ending)).body['total_items'], '0');
  const [purge] = createWebhookPurges({ sql, retentionDays: 30 });
  assert.deepEqual([await purge?.purge(10, clock.time), await purge?.purge(10, clock.time)], [1, 0]);
  assert.deepEqual((await call('GET', at)).body, ended.body);
  const [row] =
    await sql`select next_encryption_key as next, rotation_ends_at as ends from webhook where id = ${Number(at.slice(10))}`;
  assert.deepEqual(row, { next: null, ends: null });
});

test('retention removes no key before its time', async () => {
  const at = await create();
  await rotate(at);
  pass(23.99);
  const [purge] = createWebhookPurges({ sql, retentionDays: 30 });
  assert.equal(await purge?.purge(10, clock.time), 0);
  assert.equal((await call('GET', at)).body['encryption_key'], 'old');
});

test('a rotation that is finished ends at once', async () => {
  const at = await create();
  const next = (await rotate(at, { encryption_key: 'new' })).body['next_encryption_key'];
  assert.equal(next, 'new');
  const finished = await rotate(at, { finish: '1' });
  assert.deepEqual([finished.status, ...keysIn(finished)], [200, ...ALONE('new')]);
  assert.deepEqual(keysIn(await call('GET', at)), ALONE('new'));
});

test('a rotation is rejected without a key and during another one, and so is a finish without a rotation', async () => {
  const bare = await create({ format: 'partner_automation', encryption_key: null });
  assert.deepEqual(faultsIn(await rotate(bare)), ['- no_key']);
  const at = await create();
  const none = await rotate(at, { finish: true });
  assert.deepEqual([none.status, ...faultsIn(none)], [409, '- no_rotation']);
  const begun = await rotate(at);
  const again = await rotate(at);
  assert.deepEqual([again.status, ...faultsIn(again)], [409, '- rotation_under_way']);
  assert.match(again.text, /\{\\"finish\\":true\}/);
  assert.deepEqual(keysIn(await call('GET', at)), keysIn(begun));
  pass(24);
  const late = await rotate(at, { finish: true });
  assert.deepEqual([late.status, ...faultsIn(late)], [409, '- no_rotation'], 'its time was over already');
  assert.equal((await rotate(at)).status, 200, 'so the next one may begin');
});

test('a POST without required input accepts an empty body, and no other does', async () => {
  for (const headers of [{}, { 'Content-Type': 'application/json' }]) {
    const at = await create();
    const bare = await call('POST', `${at}/rotate_key`, { headers });
    assert.equal(bare.status, 200, bare.text);
    assert.match(String(bare.body['next_encryption_key']), GENERATED);
    assert.ok([400, 415].includes((await call('PATCH', at, { headers })).status));
    assert.ok([400, 415].includes((await call('POST', path, { headers })).status), 'a name is required there');
  }
  const typed = await call('POST', `${await create()}/rotate_key`, {
    body: '{',
    headers: { 'Content-Type': 'text/csv' },
  });
  assert.equal(typed.status, 415, 'a body is read all the same');
});

test('a given key is validated as on the webhook', async () => {
  const at = await create();
  const cases: [body: object, faults: string[]][] = [
    [{ encryption_key: 'x'.repeat(1_001) }, ['encryption_key too_long']],
    [{ encryption_key: 7 }, ['encryption_key invalid_value']],
    [{ encryption_key: 'old' }, ['encryption_key invalid_value']],
    [{ encryption_key: 'new', finish: true }, ['finish invalid_value']],
    [{ key: 'new' }, ['key unknown_property']],
  ];
  for (const [body, faults] of cases) {
    const reply = await rotate(at, body);
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, ...faults], JSON.stringify(body));
  }
  const hosted = await create({ format: 'partner_sitebuilder', url: 'https://cms.example.com/items' });
  assert.deepEqual(faultsIn(await rotate(hosted)), ['encryption_key required']);
  assert.equal((await rotate(hosted, { encryption_key: 'their token' })).status, 200);
  assert.deepEqual(keysIn(await call('GET', at)), ALONE('old'));
});

test('a role that does not see the key cannot rotate it, and does not see the next one', async () => {
  const at = await create();
  await rotate(at, { encryption_key: 'the next key' });
  for (const token of ['a-other', 'user', 'platform'] as const) {
    const read = await call('GET', at, { token });
    assert.deepEqual(keysIn(read).slice(0, 2), [null, null], token);
    assert.ok(!read.text.includes('the next key') && !read.text.includes('rotate_key'), token);
    for (const body of [{}, { finish: true }]) {
      const refused = await rotate(at, body, { token });
      assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope'], token);
    }
  }
  assert.equal((await rotate(at, {}, { token: 'b' })).status, 404);
  assert.equal((await call('GET', at)).body['next_encryption_key'], 'the next key');
});

test('a representation put back changes nothing of a rotation, nor does a change of another property', async () => {
  const at = await create();
  const begun = await rotate(at);
  const { body: read } = await call('GET', at);
  const put = await call('PUT', at, { body: read });
  assert.deepEqual([put.status, ...keysIn(put)], [200, ...keysIn(begun)]);
  const others = await call('PUT', at, { token: 'a-other', body: (await call('GET', at, { token: 'a-other' })).body });
  assert.equal(others.status, 200);
  await call('PATCH', at, { body: { name: 'Renamed', url: 'https://example.com', encryption_key: 'old' } });
  assert.deepEqual(keysIn(await call('GET', at)), keysIn(begun));
});

test('a representation read in a rotation is stale after its end, so that putting it back does not restore the old key', async () => {
  // Back to a day whose partition exists.
  pass(-24);
  const at = await create();
  await rotate(at, { encryption_key: 'new' });
  const read = await call('GET', at);
  const headers = { 'If-Match': read.headers.get('etag') ?? '' };
  pass(24);
  const put = await call('PUT', at, { body: { ...read.body, name: 'Renamed' }, headers });
  assert.deepEqual([put.status, ...faultsIn(put)], [412, 'If-Match precondition_failed']);
  for (const [method, to] of [
    ['DELETE', at],
    ['POST', `${at}/rotate_key`],
  ] as const) {
    assert.equal((await call(method, to, { headers, ...(method === 'POST' && { body: {} }) })).status, 412, method);
  }
  const [purge] = createWebhookPurges({ sql, retentionDays: 30 });
  assert.ok(((await purge?.purge(100, clock.time)) ?? 0) > 0);
  assert.equal((await call('PATCH', at, { body: read.body, headers })).status, 412, 'nor when retention has run');
  const again = await call('GET', at);
  assert.deepEqual(keysIn(again), ALONE('new'));
  const renamed = { body: { name: 'Renamed' }, headers: { 'If-Match': again.headers.get('etag') ?? '' } };
  assert.equal((await call('PATCH', at, renamed)).status, 200);
});

test('a change of the key or of the format ends a rotation, and the first key is gone', async () => {
  const cases: [change: object, key: string | null][] = [
    [{ encryption_key: 'a third' }, 'a third'],
    [{ encryption_key: 'new' }, 'new'],
    [{ encryption_key: null, format: 'partner_automation' }, null],
    [{ format: 'partner_automation' }, 'new'],
    [{ format: 'partner_automation', encryption_key: 'a third' }, 'a third'],
  ];
  for (const [change, key] of cases) {
    const at = await create();
    await rotate(at, { encryption_key: 'new' });
    const reply = await call('PATCH', at, { body: change });
    assert.deepEqual([reply.status, ...keysIn(reply)], [200, ...ALONE(key)], JSON.stringify(change));
    assert.deepEqual(keysIn(await call('GET', at)), ALONE(key));
  }
});

test('a rotation requested twice under one Idempotency-Key happens once, and a stale one not at all', async () => {
  const at = await create();
  const stale = (await call('GET', at)).headers.get('etag') ?? '';
  await call('PATCH', at, { body: { name: 'Renamed' } });
  const refused = await rotate(at, {}, { headers: { 'If-Match': stale } });
  assert.deepEqual([refused.status, ...faultsIn(refused)], [412, 'If-Match precondition_failed']);
  const headers = { 'Idempotency-Key': 'rotate once', 'If-Match': (await call('GET', at)).headers.get('etag') };
  const [first, second] = [await rotate(at, {}, { headers }), await rotate(at, {}, { headers })];
  assert.deepEqual([first.status, second.status], [200, 200]);
  assert.match(String(first.body['next_encryption_key']), GENERATED);
  assert.deepEqual(second.body, first.body);
  assert.deepEqual(keysIn(await call('GET', at)), keysIn(first));
  const other = await rotate(at, { finish: true }, { headers });
  assert.deepEqual([other.status, ...faultsIn(other)], [422, 'Idempotency-Key idempotency_key_reused']);
});

test('the changelog has a rotation, and no key', async () => {
  const at = await create();
  await rotate(at, { encryption_key: 'the next key' });
  await rotate(at, { finish: true });
  const rows = await sql<{ body: string }[]>`
    select body from event where resource_type = 'changelog' and body::jsonb ->> 'resource_id' = ${at.slice(10)} order by id`;
  const entries = rows.map(({ body }) => JSON.parse(body) as { before: object; after: object });
  const ends = entries[1]?.after && (entries[1].after as { rotation_ends: string }).rotation_ends;
  assert.match(String(ends), /^2026-07-/);
  assert.deepEqual(
    entries.slice(1).map(({ before, after }) => ({ before, after })),
    [
      {
        before: { next_encryption_key: null, rotation_ends: null },
        after: { next_encryption_key: 'set', rotation_ends: ends },
      },
      {
        before: { encryption_key: 'set', next_encryption_key: 'set', rotation_ends: ends },
        after: { encryption_key: 'replaced', next_encryption_key: 'removed', rotation_ends: null },
      },
    ],
  );
  assert.ok(rows.every(({ body }) => !/the next key|"old"/.test(body)));
});

test('the next key is sealed, to its own row', async () => {
  const at = await create();
  await rotate(at, { encryption_key: 'the next key' });
  const [row] = await sql<{ text: string }[]>`select w::text as text from webhook w where id = ${Number(at.slice(10))}`;
  for (const spelling of ['the next key', Buffer.from('the next key').toString('hex')]) {
    assert.ok(!row?.text.includes(spelling));
  }
  const other = await create();
  await sql`
    update webhook set rotation_ends_at = ${new Date(clock.time.getTime() + HOUR_MS)}, next_encryption_key =
      (select next_encryption_key from webhook where id = ${Number(at.slice(10))})
    where id = ${Number(other.slice(10))}`;
  const stolen = await call('GET', other);
  assert.deepEqual([stolen.status, ...keysIn(stolen).slice(0, 2)], [200, 'old', null]);
});

test('the developer of the app is notified of a key that another caller replaced, and of no other change', async () => {
  const at = await create();
  newKeys.length = 0;
  await rotate(at);
  await rotate(at, { finish: true });
  await call('PATCH', at, { body: { encryption_key: 'a third' } });
  assert.deepEqual(newKeys, [], 'the app itself made these changes');
  const id = Number(at.slice('/webhooks/'.length));
  await call('PATCH', at, { token: 'owner', body: { name: 'Renamed', encryption_key: 'a third' } });
  assert.deepEqual(newKeys, [], 'the key is the same');
  await rotate(at, {}, { token: 'owner' });
  await rotate(at, { finish: true }, { token: 'owner' });
  await call('PATCH', at, { token: 'owner', body: { encryption_key: 'a fourth' } });
  assert.deepEqual(newKeys, [id, id, id]);
});
