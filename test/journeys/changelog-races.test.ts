/** Concurrent changes that end many grants: each changelog has each end once, and no request waits forever. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPERATOR } from '#changelog/changelog.ts';
import { transaction, type Tx } from '#db/pool.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { addMember } from '#stores/store.ts';
import { openInternalEvents } from '../../src/server/publishing.ts';
import { ISSUER } from '../security/oauth-server.ts';
import { hiddenIn } from '../security/page-forms.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startWithOwners } from '../setup/owners.ts';
import { until } from '../setup/until.ts';
import { changeHome } from '../setup/suite-map.ts';

const owners = await startWithOwners();
const { call, sql, platformToken: platform, newOwner, newApp, consent, letIn, entriesOf, grantOf } = owners;

const ROUNDS = 5;
type Answer = ReturnType<typeof call>;
const erase = (userId: number): Answer => call('DELETE', `/users/${userId}`, { token: platform });
const eraseStore = (storeId: number): Answer => call('DELETE', `/stores/${storeId}`, { token: platform });
/** Returns the entries of a store as `resource action id`. */
const actionsIn = async (storeId: number): Promise<string[]> =>
  (await entriesOf(storeId)).map(({ resource, action, resource_id: id }) => `${resource} ${action} ${id}`);

test('each store of an erased user has entries for the member that left and for the grants that ended', async () => {
  const [owner, other, app] = [await newOwner(), await newOwner(), await newApp()];
  await addMember(sql, { storeId: other.storeId, userId: owner.userId, role: 'member', now: owners.now() });
  await letIn(owner, app);
  const grant = await grantOf(owner);
  assert.equal((await erase(owner.userId)).status, 204);
  const gone = `member deleted ${owner.userId}`;
  assert.deepEqual(await actionsIn(owner.storeId), [`grant given ${grant}`, `grant revoked ${grant}`, gone]);
  const [entry, ...rest] = await entriesOf(other.storeId);
  assert.deepEqual(rest, []);
  assert.deepEqual([entry?.action, entry?.actor, entry?.user], ['deleted', 'platform', null]);
  assert.deepEqual([entry?.before, entry?.after], [{ user_id: owner.userId, role: 'member' }, null]);
});

test("the grants of an erased user's app end in the changelogs of other stores, too", async () => {
  const [owner, other] = [await newOwner(), await newOwner()];
  const app = await newApp(owner.userId);
  await letIn(other, app);
  const grant = await grantOf(other);
  assert.equal((await erase(owner.userId)).status, 204);
  assert.deepEqual(await actionsIn(other.storeId), [`grant given ${grant}`, `grant revoked ${grant}`]);
});

test('a revocation that is rolled back is in no changelog', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  const native = openInternalEvents({ baseUrl: ISSUER });
  const which = { userId: owner.userId, actor: OPERATOR, origin: null, now: owners.now() };
  const failing = sql.begin(async (tx) => {
    assert.equal(await revokeGrantsOf(tx, native, which), 1);
    throw new RangeError('on the way to the commit');
  });
  await assert.rejects(failing, RangeError);
  assert.equal((await entriesOf(owner.storeId)).length, 1);
});

test('when an app is deleted, each of its grants ends once in the changelog, however many there are', async () => {
  const GRANTS = 4_100;
  const [owner, app] = [await newOwner(), await newApp()];
  await sql`
    insert into access_grant (id, client, user_id, scope, store_id, date_created)
    select nextval('id_n'), ${app.id}, ${owner.userId}, 'store_full_access', ${owner.storeId}, ${owners.now()}
    from generate_series(1, ${GRANTS})`;
  const grants = await sql<{ id: number }[]>`select id from access_grant where client = ${app.id} order by id`;
  const { client_id: clientId } = app.credentials;
  // Another database may apply so many entries after the response.
  const { status } = await changeHome(sql, () => call('DELETE', `/clients/${clientId}`, { token: platform }));
  assert.equal(status, 204);
  assert.deepEqual(
    await actionsIn(owner.storeId),
    grants.map(({ id }) => `grant revoked ${id}`),
  );
});

test('a revocation that waits for the deletion of its app writes no second entry', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  const action = `/account/connected/${await grantOf(owner)}/revoke`;
  const hidden = hiddenIn(await owner.browser.open('/account'), action);
  const deletion = await sql.reserve();
  await deletion`begin`;
  await deletion`update client set date_deleted = ${owners.now()} where id = ${app.id}`;
  let isAnswered = false;
  const pressed = owner.browser.post(action, hidden).finally(() => (isAnswered = true));
  await until(
    () => waitingForLocks(sql),
    (waiting) => waiting > 0 || isAnswered,
  );
  await deletion`commit`;
  deletion.release();
  assert.equal((await pressed).status, 303);
  assert.deepEqual(await actionsIn(owner.storeId), [`grant given ${await grantOf(owner)}`]);
});

test('a grant that races the erasure of its user ends with it, and neither waits for the other', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const [owner, app] = [await newOwner(), await newApp()];
    await letIn(owner, app);
    const [erased] = await Promise.all([erase(owner.userId), consent(owner, app).catch(() => 'no form')]);
    assert.equal(erased.status, 204);
    const entries = await entriesOf(owner.storeId);
    const idsOf = (wanted: string) =>
      entries.flatMap(({ action, resource_id: id }) => (action === wanted ? [id] : [])).toSorted((a, b) => a - b);
    assert.deepEqual(idsOf('revoked'), idsOf('given'));
    assert.deepEqual(idsOf('deleted'), [owner.userId]);
  }
});

test("two people who each gave access to the other's app can be erased at the same time", async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const [one, two] = [await newOwner(), await newOwner()];
    const [ofOne, ofTwo] = [await newApp(one.userId), await newApp(two.userId)];
    await letIn(one, ofTwo);
    await letIn(two, ofOne);
    const answers = await Promise.all([erase(one.userId), erase(two.userId)]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [204, 204],
    );
    for (const { storeId } of [one, two]) {
      const actions = (await entriesOf(storeId)).map(({ action }) => action);
      assert.deepEqual(actions.toSorted(), ['deleted', 'given', 'revoked']);
    }
  }
});

/** Starts both in this order while `held` is locked, unlocks it when both wait, and returns both answers. */
async function inTurn(held: (tx: Tx) => Promise<unknown>, one: () => Answer, two: () => Answer): Promise<number[]> {
  const started: Answer[] = [];
  await transaction(sql, async (tx) => {
    await held(tx);
    for (const [at, begin] of [one, two].entries()) {
      started.push(begin());
      await until(
        () => waitingForLocks(sql),
        (waiting) => waiting > at,
      );
    }
  });
  return (await Promise.all(started)).map(({ status }) => status);
}

test('a user and their store can be erased at the same time', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  const membership = (tx: Tx) => tx`select from membership where user_id = ${owner.userId} for share`;
  const answers = await inTurn(
    membership,
    () => eraseStore(owner.storeId),
    () => erase(owner.userId),
  );
  assert.deepEqual(answers, [204, 204]);
});

test('a store can be erased while a person disconnects all apps that they gave access to it', async () => {
  const [owner, app] = [await newOwner(), await newApp()];
  await letIn(owner, app);
  const first = await grantOf(owner);
  await letIn(owner, app);
  const second = await grantOf(owner);
  // As it was left by a version in which the end of a membership revoked no grant.
  await sql`delete from membership where user_id = ${owner.userId}`;
  // The update moves the row behind the second one in the table.
  await sql`update access_grant set date_used = ${owners.now()} where id = ${first}`;
  const answers = await inTurn(
    (tx) => tx`select from access_grant where id = ${second} for share`,
    () => eraseStore(owner.storeId),
    () => call('DELETE', `/grants/${second}`, { token: platform }),
  );
  assert.equal(answers[0], 204);
  assert.ok(answers[1] === 204 || answers[1] === 404, `it answered ${answers[1]}`);
});
