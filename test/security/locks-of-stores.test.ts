/** A change of an app locks it and then its stores; what waits for the app must not have locked the store, or both would end in a deadlock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOCKS } from '#db/advisory-lock.ts';
import { transaction } from '#db/pool.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startWithOwners, type App, type Owner } from '../setup/owners.ts';
import { homeOf, inOneDatabase } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';
import { suspending } from './operators.ts';

const owners = await startWithOwners();
const { call, sql, platformToken: token, newOwner, newApp, letIn } = owners;
const { suspend, resume } = await suspending(owners);
const pathOf = ({ storeId }: Owner): string => `/operator/stores/${storeId}`;

/** What changes the access of the app in the store of the owner. */
const CHANGES: Record<string, (owner: Owner, app: App) => Promise<() => Promise<unknown>>> = {
  'a suspension': async (owner) => () => suspend(pathOf(owner)),
  'the end of a suspension': async (owner) => {
    await suspend(pathOf(owner));
    return () => resume(pathOf(owner));
  },
  'an erasure': async (owner) => async () =>
    assert.equal((await call('DELETE', `/stores/${owner.storeId}`, { token })).status, 204),
  'a new member': async ({ storeId }, app) => {
    const other = await newOwner();
    await letIn(other, app, { scope: 'user_full_access' });
    const body = { user: other.userId, role: 'owner' };
    return async () => assert.equal((await call('POST', `/stores/${storeId}/members`, { token, body })).status, 201);
  },
  'the erasure of a person with a sandbox store': async (owner) => {
    await homeOf(sql)`update store set sandbox_of = ${owner.userId} where id = ${owner.storeId}`;
    return async () => assert.equal((await call('DELETE', `/users/${owner.userId}`, { token })).status, 204);
  },
};

for (const [what, prepare] of Object.entries(CHANGES))
  test(
    `${what} that waits for an app has not locked the store`,
    inOneDatabase('the app is in the home database'),
    async () => {
      const [owner, app] = [await newOwner(), await newApp()];
      const declaration = { webhook_url: 'https://app.example.com/events' };
      const declared = await call('PATCH', `/clients/${app.credentials.client_id}`, { token, body: declaration });
      assert.equal(declared.status, 200);
      await letIn(owner, app);
      const change = await prepare(owner, app);
      const changing = await transaction(homeOf(sql), async (tx) => {
        await tx`select pg_advisory_xact_lock(${LOCKS.accessOfApp}, hashint8(${app.id}))`;
        const running = change();
        await until(
          () => waitingForLocks(homeOf(sql)),
          (count) => count > 0,
        );
        await tx`select from store where id = ${owner.storeId} for share nowait`;
        return { running };
      });
      await changing.running;
    },
  );
