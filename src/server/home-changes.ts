/**
 * Changes of accounts that affect stores. Stores in the home database change in the same transaction; those in other databases get the
 * change through the outbox.
 */
import type { Change } from '#changelog/changelog.ts';
import type { Queryable, Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { HOME, inAvailable, type EachDatabase, type ShardMap } from '#shards/map.ts';
import type { Outbox } from '#shards/outbox.ts';
import { lockForAccess, type OutboxChange } from '#shards/outbox-sql.ts';
import { copyStore, type CopyDeps } from '#stores/copy.ts';
import { copyDeclaration } from '#webhooks/app-access/declaration.ts';
import type { WebhookChanges } from '#webhooks/webhook-access.ts';
import type { InternalEvents } from './publishing.ts';

type Scope = Parameters<InternalEvents['accessChanged']>[1];
type Resumed = Parameters<InternalEvents['resumeWebhooks']>[1];

/** The bodies of changes in the outbox, by kind; JSON. Times are ISO 8601. */
type Bodies = {
  store: { store_id: number };
  app: { client: number };
  changelog: { changes: readonly Change[]; now: string };
  access: { scope: Scope; now: string };
  resume: { target: Resumed; now: string };
};

/** Returns the changes of the home database, with those for other databases in the outbox. */
export function withOutbox(
  inHome: InternalEvents,
  { map, outbox, each }: { map: () => ShardMap; outbox: Pick<Outbox, 'enqueue' | 'enqueueForAll'>; each: EachDatabase },
): InternalEvents {
  const isHere = (storeId: number): boolean => map().owners[shardOf(storeId)] === HOME;
  const enqueue = <Kind extends keyof Bodies>(tx: Queryable, storeId: number, kind: Kind, body: Bodies[Kind]) =>
    outbox.enqueue(tx, { shard: shardOf(storeId), kind, body });
  return {
    ...inHome,
    changelog: {
      record: async (tx, changes, now) => {
        const { here = [], elsewhere = [] } = Object.groupBy(changes, ({ storeId }) =>
          isHere(storeId) ? 'here' : 'elsewhere',
        );
        await inHome.changelog.record(tx, here, now);
        for (const [storeId, ofStore] of Map.groupBy(elsewhere, (change) => change.storeId))
          await enqueue(tx, storeId, 'changelog', { changes: ofStore, now: now.toISOString() });
      },
    },
    accessChanged: async (tx, scope, now) => {
      await inHome.accessChanged(tx, scope, now);
      if (map().version === 0) return;
      // The grants and memberships may be deleted when the change is applied.
      const body: Bodies['access'] = {
        scope: { ...scope, reach: await inHome.readReach(tx, scope) },
        now: now.toISOString(),
      };
      if (scope.storeId == null) await outbox.enqueueForAll(tx, { kind: 'access', body });
      else if (!isHere(scope.storeId)) await enqueue(tx, scope.storeId, 'access', body);
    },
    countStopped: async (_home, client, storeIds) =>
      // An approval does not wait for a database that is down: its webhooks are not offered to be enabled again.
      inAvailable(each, (sql) => inHome.countStopped(sql, client, storeIds)),
    resumeWebhooks: async (tx, target, now) => {
      await inHome.resumeWebhooks(tx, { ...target, storeIds: target.storeIds.filter(isHere) }, now);
      for (const storeId of target.storeIds.filter((id) => !isHere(id)))
        await enqueue(tx, storeId, 'resume', { target: { ...target, storeIds: [storeId] }, now: now.toISOString() });
    },
  };
}

export type ApplyDeps = InternalEvents & Pick<WebhookChanges, 'announce'> & { copying: CopyDeps; now: () => Date };

/** Applies a change of the outbox in a transaction of another database. May return a function to call after the commit. */
export async function applyChange(
  tx: Tx,
  { kind, body: stored }: OutboxChange,
  deps: ApplyDeps,
): Promise<(() => Promise<void>) | undefined> {
  // `withOutbox` and the triggers `enqueue_store` and `enqueue_app_webhook` write it.
  const body = stored as Bodies[keyof Bodies];
  const now = 'now' in body ? new Date(body.now) : deps.now();
  if ('store_id' in body) return copyStore(tx, body.store_id, { ...deps.copying, now });
  if ('client' in body) await copyDeclaration(tx, body.client, deps, now);
  else if ('changes' in body) await deps.changelog.record(tx, body.changes, now);
  else if ('target' in body) await deps.resumeWebhooks(tx, body.target, now);
  else if (kind === 'access') {
    await lockForAccess(tx, 'alone');
    await deps.accessChanged(tx, body.scope, now);
  } else throw new Error(`The outbox has a change of the unknown kind ${kind}`);
  return undefined;
}
