/**
 * The events of apps that declare a webhook: `app/installed`, `app/scopes_changed` and `app/uninstalled`, in the transaction that
 * gives, changes or ends the access. The webhook of the app in the store has the scope that was sent last, and its lock makes each
 * change one event: grants of several users for the same store, or for the account, count together.
 */
import type { Queryable } from '#db/pool.ts';
import type { InternalEvent, InternalEventWriter } from '#events/publish/internal-event.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { WebhookDeps } from '../access.ts';
import type { Scope, WebhookRef } from './app-access-sql.ts';
import { findDeclaring, insertMissing, lockForApps, updateScopes, type ScopeChange } from './app-webhooks-sql.ts';

/** Stores per statement: an app that is deleted may be installed in 100,000. */
const STORES_PER_PAGE = 2_000;
const BEFORE_ALL = { shard: -1, id: 0 };

type Deps = { writeInternalEvents: InternalEventWriter; announce: WebhookDeps['announce'] };

/** Makes workers reload the webhooks when the transaction commits. */
export async function announceWebhooks(
  tx: Queryable,
  announce: WebhookDeps['announce'],
  webhooks: readonly Pick<WebhookRef, 'shard' | 'id'>[],
): Promise<void> {
  for (const [shard, ofShard] of Map.groupBy(webhooks, (webhook) => webhook.shard))
    await announce(
      tx,
      shard,
      ofShard.map(({ id }) => id),
    );
}

function actionOf({ before, after }: Pick<ScopeChange, 'before' | 'after'>) {
  if (before === null) return 'installed';
  return after === null ? 'uninstalled' : 'scopes_changed';
}

const eventOf = (change: ScopeChange, clientId: string, user: number | null, now: Date): InternalEvent => ({
  storeId: change.storeId,
  type: 'app',
  action: actionOf(change),
  resource: ({ id, timeZone }) => ({
    id,
    client_id: clientId,
    store_id: change.storeId,
    scope: change.after,
    previous_scope: change.before,
    user,
    date_created: formatDate(now, timeZone),
  }),
});

/**
 * Writes an event for each change of an app's scope in a store of the scope, and makes the webhooks that are missing. `isSilent`:
 * without events, for an app that declares its webhook after it was installed.
 */
export async function announceAccess(
  tx: Queryable,
  { writeInternalEvents, announce }: Deps,
  scope: Scope & { isSilent?: boolean },
  now: Date,
): Promise<void> {
  const apps = await findDeclaring(tx, scope);
  if (apps.length === 0) return;
  const clientIds = new Map(apps.map(({ client, clientId }) => [client, clientId]));
  await insertMissing(tx, apps, scope, now);
  for (let after = BEFORE_ALL; ;) {
    const page = await lockForApps(tx, apps, scope, { after, limit: STORES_PER_PAGE });
    const changes = await updateScopes(tx, page, now);
    await announceWebhooks(tx, announce, changes);
    if (scope.isSilent !== true)
      await writeInternalEvents(
        tx,
        changes.map((one) => eventOf(one, clientIds.get(one.client) ?? '', scope.userId ?? null, now)),
        now,
      );
    const last = page.at(-1);
    if (last === undefined || page.length < STORES_PER_PAGE) return;
    after = last;
  }
}
