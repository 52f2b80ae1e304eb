/**
 * Webhooks that an app created depend on its access: they are disabled in the transaction that ends its last grant for the store,
 * and may be enabled again under a new grant. The webhook that an app declares is sent each change of its access.
 */
import { HALCYON, inPerson, type Actor, type Changelog } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import type { InternalEventWriter } from '#events/publish/internal-event.ts';
import type { Accounts } from '#shards/accounts.ts';
import type { WebhookDeps } from '../webhook-access.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { InactiveReason } from '../webhook-fields.ts';
import { listWithAccess, lockAccess, type Reach, type Scope } from './app-access-sql.ts';
import { countStopped, disable, lockActive, resumeStopped, type WebhookRef } from './app-webhooks-sql.ts';
import { announceAccess, announceWebhooks, pagesOf, readReach } from './announce-access.ts';

const ENDED =
  'The app that created this webhook no longer has access to the store: connect the app again, then enable the webhook';
const REASON: InactiveReason = 'access_ended';

type AppWebhook = Pick<WebhookRow, 'client' | 'user' | 'storeId' | 'isHeld'>;
type LockedAccess = { userId: number | null } | undefined;

/**
 * Returns the user through whom the app of a webhook has access to its store, and locks that access until the transaction ends.
 */
export async function lockAccessOf(
  tx: Queryable,
  accounts: Accounts,
  { client, user: userId, storeId, isHeld }: AppWebhook,
): Promise<LockedAccess> {
  if (client === null) return undefined;
  return lockAccess(await accounts.locked(tx), { client, userId, storeId }, { isSameUserOnly: isHeld });
}

/**
 * Returns the user of a webhook after a change: enabling an app's webhook assigns it to the user who granted the access. Throws a
 * 409 if the app has no access.
 */
export function userAfter(
  stored: Pick<WebhookRow, 'client' | 'user' | 'isActive'>,
  after: { isActive: boolean },
  access: LockedAccess,
): number | null {
  if (stored.client === null || stored.isActive || !after.isActive) return stored.user;
  if (access === undefined) throw new Problem(409, { code: REASON, message: ENDED });
  return access.userId;
}

export type AppAccess = {
  /**
   * Applies the beginning or end of grants in the scope: disables the webhooks whose apps no longer have access, records each in the
   * changelog, and writes the events of apps that declare a webhook. `userId` is the user of the grants.
   */
  accessChanged: (tx: Queryable, scope: Scope & { reach?: Reach | undefined }, now: Date) => Promise<void>;
  /** Returns the apps and stores of the scope, for a call of `accessChanged` after the transaction. */
  readReach: (accounts: Queryable, scope: Scope) => Promise<Reach>;
  /** Returns, for each store, how many webhooks of the app are disabled because its access ended. */
  countStopped: typeof countStopped;
  /** Enables those webhooks again for the user who granted access again. */
  resumeWebhooks: (
    tx: Queryable,
    target: { client: number; userId: number; storeIds: readonly number[] },
    now: Date,
  ) => Promise<void>;
};

/** Disables the active webhooks in the scope whose app no longer has access to their store, and returns them. */
async function disableWithoutAccess(tx: Queryable, accounts: Accounts, scope: Scope, now: Date): Promise<WebhookRef[]> {
  const disabled: WebhookRef[] = [];
  for await (const locked of pagesOf((page) => lockActive(tx, scope, page))) {
    const withAccess = await listWithAccess(accounts.of(tx), locked);
    const stopping = locked.filter((_, index) => !withAccess.has(index));
    await disable(tx, stopping, now);
    disabled.push(...stopping);
  }
  return disabled;
}

export function createAppAccess({
  accounts,
  changelog,
  writeInternalEvents,
  announce,
}: {
  accounts: Accounts;
  changelog: Changelog;
  writeInternalEvents: InternalEventWriter;
  announce: WebhookDeps['announce'];
}): AppAccess {
  const recordAndNotify = async (
    tx: Queryable,
    webhooks: readonly WebhookRef[],
    isActive: boolean,
    actor: Actor,
    now: Date,
  ) => {
    const disabled = { is_active: '0', inactive_reason: REASON };
    const enabled = { is_active: '1', inactive_reason: null };
    const [before, after] = isActive ? [disabled, enabled] : [enabled, disabled];
    const action = isActive ? 'changed' : 'deactivated';
    const changes = webhooks.map(
      ({ id, storeId }) => ({ storeId, actor, resource: 'webhook', resourceId: id, action, before, after }) as const,
    );
    await changelog.record(tx, changes, now);
    await announceWebhooks(tx, announce, webhooks);
  };
  return {
    accessChanged: async (tx, scope, now) => {
      await recordAndNotify(tx, await disableWithoutAccess(tx, accounts, scope, now), false, HALCYON, now);
      await announceAccess(tx, { accounts, writeInternalEvents, announce }, scope, now);
    },
    readReach,
    countStopped,
    resumeWebhooks: async (tx, target, now) =>
      recordAndNotify(tx, await resumeStopped(tx, target, now), true, inPerson(target.userId), now),
  };
}
