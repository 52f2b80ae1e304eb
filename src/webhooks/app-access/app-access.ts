/**
 * Webhooks that an app made follow the access of the app: they are switched off in the transaction in which its last grant for the
 * store ends, and may be switched on again when it has a new one.
 */
import { HALCYON, inPerson, type Actor, type Changelog } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import type { WebhookDeps } from '../access.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { InactiveReason } from '../webhook.ts';
import {
  countStopped,
  holdAccess,
  resumeStopped,
  stopWithoutAccess,
  type Scope,
  type Stopped,
} from './app-access-sql.ts';

const ENDED =
  'The app that made this webhook has no access to the store any more: connect the app again, then switch it on';
const REASON: InactiveReason = 'access_ended';

type Made = Pick<WebhookRow, 'client' | 'user' | 'storeId' | 'isHeld'>;
type Found = { userId: number | null } | undefined;

/** Returns through whom the app that made a webhook has access to its store; the access stays until the transaction ends. */
export const holdAccessOf = async (tx: Queryable, { client, user: userId, storeId, isHeld }: Made): Promise<Found> =>
  client === null ? undefined : holdAccess(tx, { client, userId, storeId }, { isOnlyTheirs: isHeld });

/**
 * Returns whose webhook it is after a change: when an app's webhook is switched on, that of the user who let the app in. Throws a 409
 * where the app has no access.
 */
export const userAfter = (
  stored: Pick<WebhookRow, 'client' | 'user' | 'isActive'>,
  after: { isActive: boolean },
  access: Found,
): number | null => {
  if (stored.client === null || stored.isActive || !after.isActive) return stored.user;
  if (access === undefined) throw new Problem(409, { code: REASON, message: ENDED });
  return access.userId;
};

export type AppAccess = {
  /** Switches off the webhooks in the scope whose apps have no access any more, and records each in the changelog. */
  stopWebhooks: (tx: Queryable, scope: Scope, now: Date) => Promise<void>;
  /** Returns the stores that have webhooks of the app which are off because its access ended, and how many. */
  countStopped: typeof countStopped;
  /** Switches those webhooks on again for the user who has let the app in once more. */
  resumeWebhooks: (
    tx: Queryable,
    whose: { client: number; userId: number; storeIds: readonly number[] },
    now: Date,
  ) => Promise<void>;
};

export const createAppAccess = ({
  changelog,
  announce,
}: {
  changelog: Changelog;
  announce: WebhookDeps['announce'];
}): AppAccess => {
  const follow = async (tx: Queryable, webhooks: readonly Stopped[], isActive: boolean, actor: Actor, now: Date) => {
    const off = { is_active: '0', inactive_reason: REASON };
    const on = { is_active: '1', inactive_reason: null };
    const [before, after] = isActive ? [off, on] : [on, off];
    const action = isActive ? 'changed' : 'deactivated';
    const changes = webhooks.map(
      ({ id, storeId }) => ({ storeId, actor, resource: 'webhook', resourceId: id, action, before, after }) as const,
    );
    await changelog.record(tx, changes, now);
    for (const [shard, ofShard] of Map.groupBy(webhooks, (webhook) => webhook.shard))
      await announce(
        tx,
        shard,
        ofShard.map(({ id }) => id),
      );
  };
  return {
    stopWebhooks: async (tx, scope, now) => follow(tx, await stopWithoutAccess(tx, scope, now), false, HALCYON, now),
    countStopped,
    resumeWebhooks: async (tx, whose, now) =>
      follow(tx, await resumeStopped(tx, whose, now), true, inPerson(whose.userId), now),
  };
};
