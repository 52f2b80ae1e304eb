/** The sandbox store of a developer: POST {base_url}/users/<id>/sandbox_store, and the same from the page of the apps. */
import { actorOf, type Actor } from '#changelog/changelog.ts';
import { transaction, type Tx } from '#db/pool.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound, Problem, suspended } from '#core/problem.ts';
import { reachesAccount } from '#core/principal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { addMemberWithEntry, createStoreWithEntry, type MemberEffects } from './audited-changes.ts';
import { addressOfStore, storeDocument, type PublishedCollection } from './store-document.ts';
import { findSandbox, lockDeveloper, lockForErasure, type StoreRow } from './stores-sql.ts';
import { eraseStoreIn, type Eraser, type LockAppsOf } from './store.ts';
import { lockMember } from './members/members-sql.ts';

const OFF = 'The operator of this service has switched sandbox stores off';
const UNVERIFIED = {
  code: 'email_not_verified',
  message:
    'A sandbox store needs an account whose e-mail address is confirmed: choose a new password with a mailed link',
};

/**
 * The address for mails is not that of the developer, because every app with access to the store can read it (`notices` mails the
 * developer instead). Names under `.example` are never resolved (RFC 2606).
 */
const detailsOf = (userId: number) => ({
  name: 'Sandbox store',
  domain: `sandbox-${userId}.example`,
  email: `developer@sandbox-${userId}.example`,
  timeZone: 'UTC',
});

/**
 * Returns the sandbox store of a user, and creates it with the user as its owner if there is none. Throws a 404 if the user does not
 * exist, and a 403 if sandbox stores are switched off, or this one is suspended.
 */
export function provideSandbox(
  { sql, config }: Pick<Runtime, 'sql' | 'config'>,
  { changelog, memberAccess: access }: MemberEffects,
  userId: number,
  { actor, now }: { actor: Actor; now: Date },
): Promise<StoreRow> {
  return transaction(sql, async (tx) => {
    const developer = await lockDeveloper(tx, userId);
    if (developer === undefined) throw notFound('user');
    if (!developer.isEmailVerified) throw new Problem(403, UNVERIFIED);
    const present = await findSandbox(tx, userId);
    if (present === undefined && !config.stores.allowsSandboxes)
      throw new Problem(403, { code: 'sandbox_stores_off', message: OFF });
    if (present?.suspendedReason != null) throw suspended('store', present.suspendedReason);
    const by = { changelog, actor, now };
    const store = present ?? (await createStoreWithEntry(tx, { ...detailsOf(userId), sandboxOf: userId }, by));
    const member = { shard: shardOf(store.id), storeId: store.id, userId };
    // Another owner may have removed the developer.
    if ((await lockMember(tx, member)) === undefined)
      await addMemberWithEntry(tx, { ...member, role: 'owner' }, { ...by, access });
    return store;
  });
}

/** Locks the sandbox store of a user against everything, until the user's erasure ends. */
export async function lockSandboxOf(tx: Tx, userId: number, lockAppsOf: LockAppsOf): Promise<void> {
  const store = await findSandbox(tx, userId);
  if (store === undefined) return;
  await lockAppsOf(tx, store.id);
  await lockForErasure(tx, shardOf(store.id), store.id);
}

/** Erases the sandbox store of a user, also if it has other members, in the transaction of the user's erasure. */
export async function eraseSandboxOf(
  tx: Tx,
  { userId, erasers }: { userId: number; erasers: readonly Eraser[] },
  request: Pick<ApiRequest, 'address' | 'headers' | 'now'>,
): Promise<void> {
  const store = await findSandbox(tx, userId);
  if (store === undefined) return;
  await eraseStoreIn(tx, { shard: shardOf(store.id), storeId: store.id, erasers }, request);
}

export function createSandbox(
  runtime: Runtime,
  { effects, collections }: { effects: MemberEffects; collections: readonly PublishedCollection[] },
): Operation {
  const { baseUrl } = runtime.config;
  return guarded({
    title: 'Create the sandbox store',
    summary: 'Returns the sandbox store of the user, which the first request creates: a user has one at most',
    handle: async ({ params, principal, now }) => {
      const userId = parseId(params['user_id'] ?? '');
      if (userId === undefined || !reachesAccount(principal, userId)) throw notFound('user');
      const store = await provideSandbox(runtime, effects, userId, { actor: actorOf(principal), now });
      const document = storeDocument(store, { baseUrl, collections });
      return { status: 200, document, next: addressOfStore(store.id, baseUrl) };
    },
  });
}
