/** `halcyon rekey`: secrets sealed with one key are sealed with another, while other processes read and write them. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { Sql } from '#db/pool.ts';
import { createSealer, keyIdOf, adoptSealingKey, checkSealingKey } from '#db/seal.ts';
import type { Keys } from '#core/keys.ts';
import { createKeyVault } from '#webhooks/webhook-vault.ts';
import { createStore } from '#stores/store.ts';
import { resealAll } from '#cli/rekey.ts';
import { runCommand } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
import { keyOf, nextKeyOf, requestOf, sealWebhooks } from '../setup/sealed-webhooks.ts';

type Row = { id: number; key: Buffer; next: Buffer; request: Buffer; revision: number; modified: Date };
type Context = { after: (fn: () => Promise<void>) => void };

const SHOP = { name: 'Alpha', domain: 'alpha.example.com', email: 'shop@example.com', timeZone: 'UTC' };
const REFUSED = / is another key than /;

/** A database that was in use with one key for long: webhooks in a rotation, and a stored answer. */
async function openSealed(t: Context, count: number) {
  const { sql, address } = await testDatabase(t);
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  const sealer = createSealer(old);
  await adoptSealingKey(sql, old);
  await checkSealingKey(sql, { keys: [old], from: 'the test' });
  const { id: storeId } = await createStore(sql, { ...SHOP, now: new Date() });
  const ids = await sealWebhooks(sql, sealer, { storeId, first: 1_000, count });
  const scope = randomBytes(32);
  const answer = sealer.seal('{"status":201}', `idempotency:${scope.toString('hex')}`);
  await sql`insert into idempotency_key (scope, body_hash, answer, date_created)
    values (${scope}, ${randomBytes(32)}, ${answer}, now())`;
  const rows = async (): Promise<Row[]> => [
    ...(await sql<Row[]>`
      select id, encryption_key as key, next_encryption_key as next, request_secrets as request, revision, date_modified as modified
      from webhook order by shard, id`),
  ];
  const openAnswer = async (key: Buffer): Promise<string> => {
    const [row] = await sql<{ answer: Buffer }[]>`select answer from idempotency_key`;
    return createSealer(key).open(row?.answer ?? Buffer.alloc(0), `idempotency:${scope.toString('hex')}`);
  };
  return { sql, address, old, fresh, storeId, ids, rows, openAnswer };
}

function openAll(rows: readonly Row[], key: Buffer): string[] {
  const { open } = createSealer(key);
  return rows.flatMap(({ id, key: one, next, request }) =>
    [one, next, request].map((sealed) => open(sealed, `webhook:${id}`)),
  );
}

/** Runs `halcyon rekey`, with `between` in place of the pauses. */
function renew(sql: Sql, keys: Keys, between = async (): Promise<void> => {}, stopAfter = Number.POSITIVE_INFINITY) {
  let pages = 0;
  return resealAll(sql, keys, {
    pause: between,
    isStopped: () => pages >= stopAfter,
    onProgress: () => void (pages += 1),
  });
}

const startsWith = (sql: Sql, ...keys: Keys): Promise<boolean> => checkSealingKey(sql, { keys, from: 'this' });

test('the command seals everything with the new key, which is then the one that processes need', async (t) => {
  const { sql, address, old, fresh, ids, rows, openAnswer } = await openSealed(t, 450);
  const before = await rows();
  const [KEY, OTHER] = ['HALCYON_SECRET_KEY', 'HALCYON_SECRET_KEY_OTHER'] as const;
  const run = (args: string[], keys: Record<string, Buffer>) => {
    const hex = Object.fromEntries(Object.entries(keys).map(([name, key]) => [name, key.toString('hex')]));
    return runCommand(args, { DATABASE_URL: urlOf(address), ...hex });
  };
  const alone = await run(['rekey'], { [KEY]: fresh });
  assert.deepEqual([alone.code, REFUSED.test(alone.err)], [1, true], 'no process starts with the new key alone yet');

  const { code, out, err } = await run(['rekey', '--json'], { [KEY]: fresh, [OTHER]: old });
  assert.deepEqual([code, err], [0, '']);
  const { seconds, ...said } = JSON.parse(out) as Record<string, unknown>;
  assert.equal(typeof seconds, 'number');
  assert.deepEqual(said, { complete: true, adopted: true, webhooks: 450, answers: 1, unopened: [] });

  const after = await rows();
  assert.deepEqual(
    openAll(after, fresh),
    ids.flatMap((id) => [keyOf(id), nextKeyOf(id), requestOf(id)]),
  );
  assert.equal(await openAnswer(fresh), '{"status":201}');
  const untouched = ({ id, revision, modified }: Row) => ({ id, revision, modified });
  assert.deepEqual(after.map(untouched), before.map(untouched), 'no webhook has changed otherwise');

  const again = await run(['rekey'], { [KEY]: fresh, [OTHER]: old });
  assert.match(again.out, /^0 webhooks and 0 stored .*\nNext: .*HALCYON_SECRET_KEY_OTHER/);
  assert.equal((await run(['migrate'], { [KEY]: fresh })).code, 0);
  const refused = await run(['migrate'], { [KEY]: old });
  assert.deepEqual([refused.code, REFUSED.test(refused.err)], [1, true]);
  assert.deepEqual(await rows(), after);
  const [key] = await sql<{ id: Buffer }[]>`select key_id as id from sealing_key`;
  assert.deepEqual(key?.id, keyIdOf(fresh));
});

test('the keys of the webhooks that apps declare are sealed again', async (t) => {
  const { sql, old, fresh } = await openSealed(t, 1);
  const boundTo = 'app_webhook:7';
  const [current, next] = [
    createSealer(old).seal('whsec_of_an_app', boundTo),
    createSealer(old).seal('the next', boundTo),
  ];
  await sql`
    insert into app_webhook (client, url, key, next_key, rotation_ends_at, date_modified)
    values (7, 'https://app.example.com/', ${current}, ${next}, now(), now())`;
  const done = await renew(sql, [fresh, old]);
  assert.deepEqual([done.end, done.counts.get('webhooks of apps')], ['done', 1]);
  const [row] = await sql<{ key: Buffer; next: Buffer }[]>`select key, next_key as next from app_webhook`;
  const opened = [row?.key, row?.next].map((key) => createSealer(fresh).open(key ?? Buffer.alloc(0), boundTo));
  assert.deepEqual(opened, ['whsec_of_an_app', 'the next']);
});

test('the secrets of the request of a webhook without a key are sealed again', async (t) => {
  const { sql, old, fresh, ids, rows } = await openSealed(t, 1);
  await sql`update webhook set format = 'partner_automation', encryption_key = null, next_encryption_key = null,
    rotation_ends_at = null`;
  const done = await renew(sql, [fresh, old]);
  assert.deepEqual([done.end, done.counts.get('webhooks')], ['done', 1]);
  const [row] = await rows();
  const [id = 0] = ids;
  assert.equal(createSealer(fresh).open(row?.request ?? Buffer.alloc(0), `webhook:${id}`), requestOf(id));
});

test('the secrets of earlier settings are sealed again', async (t) => {
  const { sql, old, fresh, ids } = await openSealed(t, 3);
  for (const url of ['https://a.example.com/', 'https://b.example.com/'])
    await sql`update webhook set url = ${url}, revision = revision + 1`;
  const done = await renew(sql, [fresh, old]);
  assert.deepEqual([done.end, done.counts.get('versions of webhooks')], ['done', 6]);
  const rows = await sql<{ id: number; request: Buffer }[]>`
    select webhook_id as id, request_secrets as request from webhook_version order by shard, webhook_id, revision`;
  assert.deepEqual(
    rows.map(({ id, request }) => createSealer(fresh).open(request, `webhook:${id}`)),
    ids.flatMap((id) => [requestOf(id), requestOf(id)]),
  );
});

test('a row that changes meanwhile stays as it was changed', async (t) => {
  const { sql, old, fresh, ids, rows } = await openSealed(t, 3);
  const vault = createKeyVault(sql);
  const page = await vault.page({ keyId: keyIdOf(fresh), after: undefined, limitRows: 10 });
  const [changed = 0, ...others] = ids;
  const theirs = createSealer(fresh, old).seal('set meanwhile', `webhook:${changed}`);
  await sql`update webhook set encryption_key = ${theirs} where id = ${changed}`;
  const sealer = createSealer(fresh);
  const replacements = page.map(({ id, boundTo, envelopes }) => {
    return { id, boundTo, envelopes, renewed: envelopes.map(() => sealer.seal('what was read', boundTo)) };
  });
  assert.deepEqual(
    (await vault.replace(replacements)).map((id) => Number(id.split(' ').at(-1))).toSorted((a, b) => a - b),
    others,
  );
  const [first] = await rows();
  assert.equal(sealer.open(first?.key ?? Buffer.alloc(0), `webhook:${changed}`), 'set meanwhile');
});

test('rekey skips a locked row, and the key of the database changes after the last row', async (t) => {
  const { sql, old, fresh, ids, rows } = await openSealed(t, 5);
  const held = ids[2] ?? 0;
  const done = await sql.begin(async (tx) => {
    await tx`select from webhook where id = ${held} for update`;
    return renew(sql, [fresh, old]);
  });
  assert.deepEqual([done.end, done.isAdopted, done.counts.get('webhooks'), done.late], ['incomplete', false, 4, 0]);
  assert.equal(await startsWith(sql, old), true);
  await assert.rejects(startsWith(sql, fresh), REFUSED);
  assert.equal(await startsWith(sql, fresh, old), false, 'with both keys it starts, and is asked to run rekey');

  const rest = await renew(sql, [fresh, old]);
  assert.deepEqual([rest.end, rest.isAdopted, rest.counts.get('webhooks')], ['done', true, 1]);
  assert.equal(openAll(await rows(), fresh).length, 15);
  assert.equal(await startsWith(sql, fresh), true);
  await assert.rejects(startsWith(sql, old), REFUSED);
});

test('an interrupted run is continued', async (t) => {
  const { sql, old, fresh, rows } = await openSealed(t, 450);
  const first = await renew(sql, [fresh, old], undefined, 1);
  assert.deepEqual([first.end, first.isAdopted, first.counts.get('webhooks')], ['stopped', false, 200]);
  const kept = (await rows()).slice(0, 200);
  const second = await renew(sql, [fresh, old]);
  assert.deepEqual([second.end, second.isAdopted, second.counts.get('webhooks')], ['done', true, 250]);
  assert.deepEqual((await rows()).slice(0, 200), kept, 'completed rows are not sealed again');
});

test('as long as a process seals with the old key, the database keeps it, and the operator gets a message', async (t) => {
  const { sql, old, fresh, storeId } = await openSealed(t, 3);
  let next = 5_000;
  const late = () => sealWebhooks(sql, createSealer(old), { storeId, first: (next += 1), count: 1 }).then(() => {});
  const held = await sql.begin(async (tx) => {
    await tx`select from webhook order by id limit 1 for update`;
    return renew(sql, [fresh, old], late);
  });
  assert.ok(held.late > 0, String(held.late));
  assert.equal(held.isAdopted, false);
  assert.equal(await startsWith(sql, old), true);
});

test('a row that neither key opens is named and left as it is, and the others are still changed', async (t) => {
  const { sql, address, old, fresh, ids, rows } = await openSealed(t, 3);
  const [first = 0, second = 0, third = 0] = ids;
  const [source] = await rows();
  // A key that was copied from another row, and one of a key that is lost.
  await sql`update webhook set encryption_key = ${source?.key ?? null} where id = ${second}`;
  const lost = createSealer(randomBytes(32)).seal('lost', `webhook:${third}`);
  await sql`update webhook set encryption_key = ${lost} where id = ${third}`;
  const before = await rows();
  const env = { HALCYON_SECRET_KEY: fresh.toString('hex'), HALCYON_SECRET_KEY_OTHER: old.toString('hex') };
  const { code, err, out } = await runCommand(['rekey'], { DATABASE_URL: urlOf(address), ...env });
  assert.equal(code, 2, err);
  assert.match(err, new RegExp(`^webhook:${second} .*\\nwebhook:${third} .*\\nhalcyon: 2 secrets`));
  assert.match(out, /^3 webhooks and 1 stored /, 'their next keys open');
  const after = await rows();
  assert.deepEqual(
    after.slice(1).map(({ key }) => key),
    before.slice(1).map(({ key }) => key),
  );
  const { open } = createSealer(fresh);
  assert.equal(open(after[0]?.key ?? Buffer.alloc(0), `webhook:${first}`), keyOf(first));
  assert.equal(open(after[1]?.next ?? Buffer.alloc(0), `webhook:${second}`), nextKeyOf(second));
  assert.equal(await startsWith(sql, fresh), true);
});
