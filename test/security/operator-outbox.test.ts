/** What is noted for the operator in the transaction of what happened: here it waits, because the platform store does not exist. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import { createWebhookPurges } from '#webhooks/webhook-purges-sql.ts';
import { readConfig } from '../../src/config/config.ts';
import { addMember } from '#stores/store.ts';
import { HTML } from '../setup/form-filler.ts';
import { grantEndings } from '../setup/grant-revocations.ts';
import { openEffects } from '../setup/grant-access.ts';
import { startWithOwners, type Owner } from '../setup/owners.ts';
import { changeHome, homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { ISSUER } from './oauth-server.ts';
import { suspending } from './operators.ts';

const MISSING = 999_999;
const owners = await startWithOwners({ PLATFORM_STORE: String(MISSING) });
const { call, sql, platformToken: platform, newOwner, newApp, letIn, consent, grantOf } = owners;
const home = homeOf(sql);

/** Returns what was noted about a store, in order. */
async function notedOf({ storeId }: Pick<Owner, 'storeId'>): Promise<string[]> {
  const rows = await home<{ text: string }[]>`
    select concat_ws(' ', action, body ->> 'client_id', body ->> 'reason') as text from operator_outbox
    where (body ->> 'store_id')::bigint = ${storeId} order by id`;
  return rows.map(({ text }) => text);
}

const DAY_MS = 86_400_000;
const later = new Date(owners.now().getTime() + 1_000 * DAY_MS);
const purge = (name: string): Promise<unknown> =>
  changeHome(sql, async (database) => {
    const effects = await openEffects(database, ISSUER, MISSING);
    const purges = createOAuthPurges({ sql: database, config: readConfig({}, '/') }, effects);
    return purges.find((one) => one.name === name)?.purge(1_000, later);
  });

const endings = Object.entries(grantEndings(owners)).filter(
  ([how]) => how !== 'with its app, which the operator deletes',
);
for (const [how, { end, rotates = false }] of endings)
  test(`an app whose access ends ${how} is noted once, with its first access`, async () => {
    const owner = await newOwner();
    const app = await newApp(undefined, rotates);
    const tokens = await letIn(owner, app);
    await end(owner, app, tokens);
    const { client_id: id } = app.credentials;
    assert.deepEqual(await notedOf(owner), [`app_installed ${id}`, `app_uninstalled ${id}`]);
  });

test('a further access of an app, and the end of one of several, is not noted', async () => {
  const [owner, other] = [await newOwner(), await newOwner()];
  const { storeId } = owner;
  await call('POST', `/stores/${storeId}/members`, { token: platform, body: { user: other.userId, role: 'owner' } });
  const app = await newApp();
  await letIn(owner, app);
  await letIn(other, app, { scope: `store_full_access store_id_${storeId}` });
  const { client_id: id } = app.credentials;
  await call('DELETE', `/grants/${await grantOf(other)}`, { token: platform });
  assert.deepEqual(await notedOf(owner), [`app_installed ${id}`]);
  await call('DELETE', `/stores/${storeId}/members/${owner.userId}`, { token: platform });
  assert.deepEqual(await notedOf(owner), [`app_installed ${id}`, `app_uninstalled ${id}`]);
});

test('access to a whole account is not that of one store', async () => {
  const owner = await newOwner();
  const app = await newApp();
  await letIn(owner, app, { scope: 'user_full_access' });
  await call('DELETE', `/grants/${await grantOf(owner)}`, { token: platform });
  assert.deepEqual(await notedOf(owner), []);
});

test('a grant whose code is never redeemed, and one that is never refreshed, are noted when they lapse', async () => {
  const [unredeemed, idle] = [await newOwner(), await newOwner()];
  const app = await newApp();
  await consent(unredeemed, app);
  await purge('authorization_codes');
  await letIn(idle, app);
  await purge('refresh_tokens');
  const { client_id: id } = app.credentials;
  for (const owner of [unredeemed, idle])
    assert.deepEqual(await notedOf(owner), [`app_installed ${id}`, `app_uninstalled ${id}`]);
});

test('a suspension of a store is noted with its reason, and its end is not', async () => {
  const owner = await newOwner();
  const { suspend, resume } = await suspending(owners);
  const path = `/operator/stores/${owner.storeId}`;
  await suspend(path, 'It sends spam');
  await resume(path);
  assert.deepEqual(await notedOf(owner), ['store_suspended It sends spam']);
});

test('what waits for a store that does not exist is deleted after 30 days', async () => {
  const purges = createWebhookPurges({ sql: home, retentionDays: 30 });
  const run = async (days: number) => {
    const now = new Date(owners.now().getTime() + days * DAY_MS);
    await purges.find(({ name }) => name === 'operator_events')?.purge(1_000, now);
    return (await home`select from operator_outbox`).length;
  };
  assert.ok((await run(29)) > 0);
  // The server locks the rows each second, to see whether the store exists, and a purge skips what is locked.
  await until(
    () => run(1_031),
    (waiting) => waiting === 0,
  );
});

test('pages of the platform store show and offer the events, those of other stores do not', async () => {
  const [owner, other] = [await newOwner(), await newOwner()];
  const place = JSON.stringify({ id: MISSING, shard: MISSING % 256, domain: 'platform.example.com' });
  await home`
    insert into store select (jsonb_populate_record(s, ${place}::jsonb)).* from store s where id = ${owner.storeId}`;
  await addMember(home, { storeId: MISSING, userId: owner.userId, role: 'owner', now: owners.now() });
  const body = { name: 'Tea', domain: 'tea.example.com', email: 'tea@example.com', time_zone: 'UTC' };
  const made = await call('POST', '/stores', { token: platform, body });
  const list = `/stores/${MISSING}/operator_events`;
  const read = async () => (await owner.browser.open(`${list}?store_id=${String(made.body['id'])}`, HTML)).text;
  const address = new RegExp(`${list}/\\d+`);
  const [item = ''] = address.exec(await until(read, (text) => address.test(text))) ?? [];
  const { status, text } = await owner.browser.open(item, HTML);
  assert.equal(status, 200);
  assert.match(text, new RegExp(`href="[^"]*/stores/${String(made.body['id'])}"`));
  for (const below of ['webhooks', 'events', 'statuses']) {
    assert.match((await owner.browser.open(`/stores/${MISSING}/${below}`, HTML)).text, /operator_event/, below);
    const ofOther = await other.browser.open(`/stores/${other.storeId}/${below}`, HTML);
    assert.equal(ofOther.status, 200);
    assert.doesNotMatch(ofOther.text, /operator_event/, below);
  }
  assert.doesNotMatch((await other.browser.open(`/stores/${other.storeId}`, HTML)).text, /operator_event/);
  assert.equal((await other.browser.open(list, HTML)).status, 404);
});
