/**
 * Notes what the operator's webhooks are sent, in the transaction of what happened: a process publishes it in the platform store
 * (`operator-events.ts`). Without a platform store nothing is noted.
 */
import type { Change } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { listInstalledByMembers, type MemberGrant } from '../app-access/app-access-sql.ts';
import { insertHappened, type Happened } from './operator-sql.ts';

export type OperatorOutbox = {
  /** Notes what the changes mean for the operator: a new store, a suspension, the first or the last access of an app to a store. */
  noteChanges: (home: Queryable, changes: readonly Change[], now: Date) => Promise<void>;
  /** Notes that a grant for a store has expired, which is no change in the changelog, if it was the last one of its app. */
  noteExpired: (home: Queryable, grant: MemberGrant, now: Date) => Promise<void>;
  /** Notes that Halcyon has disabled a webhook. */
  noteDisabled: (tx: Queryable, webhook: { storeId: number; id: number; why: string }, now: Date) => Promise<void>;
};

/** Returns what a change of a store means. */
function ofStore({ resource, action, storeId, before, after }: Change): Happened[] {
  if (resource !== 'store') return [];
  if (action === 'created') return [{ action: 'store_created', body: { store_id: storeId } }];
  const reason = after?.['suspended_reason'];
  const isSuspended = typeof reason === 'string' && before?.['suspended_reason'] === null;
  return isSuspended ? [{ action: 'store_suspended', body: { store_id: storeId, reason } }] : [];
}

/** Returns the grants that changes give or revoke, once for each app and store. */
function grantsIn(changes: readonly Change[]): (MemberGrant & { isGiven: boolean })[] {
  const grants = changes.flatMap(({ resource, resourceId, action, storeId, before, after }) => {
    const clientId = (after ?? before)?.['client_id'];
    if (resource !== 'grant' || typeof clientId !== 'string') return [];
    return [{ grantId: Number(resourceId), clientId, storeId, isGiven: action === 'given' }];
  });
  return [...new Map(grants.map((grant) => [`${grant.clientId} ${grant.storeId}`, grant])).values()];
}

/**
 * Returns the first and the last access of apps among the grants: no other one is in effect. Two members who give an app its first access
 * at the same moment make two events.
 */
async function ofApps(home: Queryable, grants: readonly (MemberGrant & { isGiven: boolean })[]): Promise<Happened[]> {
  if (grants.length === 0) return [];
  const installed = await listInstalledByMembers(home, grants);
  return grants.flatMap(({ clientId, storeId, isGiven }, at): Happened[] => {
    if (installed[at] === true) return [];
    const action = isGiven ? 'app_installed' : 'app_uninstalled';
    return [{ action, body: { store_id: storeId, client_id: clientId } }];
  });
}

async function note(tx: Queryable, happened: readonly Happened[], now: Date): Promise<void> {
  if (happened.length > 0) await insertHappened(tx, happened, now);
}

export function createOperatorOutbox(): OperatorOutbox {
  return {
    noteChanges: async (home, changes, now) =>
      note(home, [...changes.flatMap(ofStore), ...(await ofApps(home, grantsIn(changes)))], now),
    noteExpired: async (home, grant, now) => note(home, await ofApps(home, [{ ...grant, isGiven: false }]), now),
    noteDisabled: (tx, { storeId, id, why }, now) =>
      note(tx, [{ action: 'webhook_disabled', body: { store_id: storeId, webhook_id: id, reason: why } }], now),
  };
}
