/** Publishing in a process with the events of Halcyon itself, and the notification of those that send or stream the deliveries. */
import { createChangelog, type Change } from '#changelog/changelog.ts';
import { announceChanged, announceErased, announceWork, type Announcer, type LaneKey } from '#delivery/announce.ts';
import { workOf, type CommittedDelivery, type Worker } from '#delivery/worker.ts';
import { createIdAllocator, type IdAllocator } from '#db/partitions.ts';
import type { Committed } from '#events/publish/rows.ts';
import type { EventCaches } from '#events/erase/erasure.ts';
import { type PublishMetrics, createPublisher } from '#events/publish/publish.ts';
import { createInternalEventWriter, type InternalEventDeps } from '#events/publish/internal-event.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { WebhookChanges } from '#webhooks/webhook-access.ts';
import { createOperatorOutbox, type OperatorOutbox } from '#webhooks/operator/operator-events.ts';
import { createAppAccess } from '#webhooks/app-access/app-access.ts';
import type { Config } from '#config/config.ts';
import { ACCOUNTS_HERE, type Accounts, HOME, inAvailable, type EachDatabase, type ShardMap } from '#shards/map.ts';
import type { DatabaseSiblings } from './supervisor.ts';
import { afterCommit, type Queryable, type Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import type { Outbox } from '#shards/outbox.ts';
import { lockForAccess } from '#db/advisory-lock.ts';
import type { OutboxChange } from '#shards/outbox-sql.ts';
import { copyStore, type CopyDeps } from '#stores/store.ts';
import { copyDeclaration } from '#webhooks/app-access/declaration.ts';

const handedOver = ({ shard, deliveryId, storeId, webhookId, epoch, dueAt, event }: Committed): CommittedDelivery => ({
  shard,
  delivery: { id: deliveryId, storeId, webhookId, epoch, eventId: event.id, attempts: 0, faults: 0, dueAt },
  event: { ...event, storeId },
});

/** Workers do not send deliveries of pull webhooks; a listener fetches them. */
const isSent = ({ isHeld }: Committed): boolean => !isHeld;

export const announceSent: InternalEventDeps['announce'] = (tx, deliveries) =>
  announceWork(tx, deliveries.filter(isSent));

type OnChanged = (webhook: LaneKey) => void;

/**
 * Returns the function that announces changed webhooks when the transaction commits: to the parts of this process at once, so that it sends
 * nothing with the old settings after the response, and to all workers by NOTIFY.
 */
const announcing =
  (onChanged: OnChanged): WebhookChanges['announce'] =>
  async (tx, shard, ids) => {
    const webhooks = ids.map((webhookId) => ({ shard, webhookId }));
    afterCommit(tx, () => webhooks.forEach(onChanged));
    await announceChanged(tx, webhooks);
  };

/** Without PLATFORM_STORE there is no webhook for the operator. */
const NOTHING_NOTED: OperatorOutbox = {
  noteChanges: async () => {},
  noteExpired: async () => {},
  noteDisabled: async () => {},
};

/**
 * Creates the writer of internal events, and the changes of webhooks that depend on accounts. Commands have no worker; the shard owners
 * are notified of the deliveries. `onChanged` is called for each changed webhook.
 */
export function openInternalEvents(
  { baseUrl, stores }: Pick<Config, 'baseUrl'> & { stores?: Pick<Config['stores'], 'platformStore'> },
  allocateIds: IdAllocator = createIdAllocator(),
  accounts: Accounts = ACCOUNTS_HERE,
  onChanged: OnChanged = () => {},
) {
  const writeInternalEvents = createInternalEventWriter({ allocateIds, baseUrl, announce: announceSent });
  const changelog = createChangelog(writeInternalEvents);
  const announceChanges = announcing(onChanged);
  return {
    accounts,
    announceChanges,
    writeInternalEvents,
    changelog,
    ...(stores?.platformStore === undefined ? NOTHING_NOTED : createOperatorOutbox()),
    ...createAppAccess({ accounts, changelog, writeInternalEvents, announce: announceChanges }),
  };
}

export type InternalEvents = ReturnType<typeof openInternalEvents>;

/**
 * Notifies caches of erased events: the worker of this process at once, all others by NOTIFY. Sibling processes get a message
 * too, which no delivery of a later event overtakes.
 */
export function eventCachesOf(worker: Worker | undefined, siblings?: DatabaseSiblings): EventCaches {
  return {
    announce: announceErased,
    forget: ({ ids }) => {
      worker?.eventsErased(ids);
      siblings?.broadcast('eventsErased', ids);
    },
  };
}

type HandOver = (deliveries: readonly CommittedDelivery[]) => void;

/**
 * Returns a function that passes committed deliveries to the owners of their shards: directly to a sibling process, which needs
 * no statement to send them, and by NOTIFY to any other process.
 */
function createHandOver({ worker, announcer, siblings }: PublishingParts): HandOver {
  const announce: HandOver = (deliveries) => {
    for (const one of deliveries) announcer.work(workOf(one));
  };
  if (worker === undefined || siblings === undefined) return announce;
  // The shard may have moved since the sender read its owner.
  siblings.receive('deliveries', (deliveries) => announce(worker.receive(deliveries)), announce);
  return (deliveries) => {
    for (const [owner, owned] of Map.groupBy(deliveries, ({ shard }) => worker.ownerOf(shard)))
      if (owner === undefined || !siblings.send(owner, 'deliveries', owned)) announce(owned);
  };
}

/** The parts of this process and its siblings that have settings of webhooks in memory. Each part is added when it is created. */
export class ChangedWebhooks {
  readonly #parts: OnChanged[] = [];
  readonly #siblings: DatabaseSiblings | undefined;

  constructor(siblings: DatabaseSiblings | undefined) {
    this.#siblings = siblings;
    siblings?.receive('webhookChanged', this.#notify);
  }

  add(part: OnChanged): void {
    this.#parts.push(part);
  }

  readonly onChanged: OnChanged = (webhook) => {
    this.#notify(webhook);
    this.#siblings?.broadcast('webhookChanged', webhook);
  };

  readonly #notify: OnChanged = (webhook) => {
    for (const part of this.#parts) part(webhook);
  };
}

type PublishingParts = {
  worker: Worker | undefined;
  announcer: Announcer;
  siblings: DatabaseSiblings | undefined;
  /** The allocator of the process. */
  allocateIds: IdAllocator;
  internalEvents: InternalEvents;
  metrics: PublishMetrics;
  /** Called after the commit with the pull webhooks that have new deliveries. */
  onPullDeliveries: (webhookIds: readonly number[]) => void;
};

export function openPublishing({ config, sql, log }: Pick<Runtime, 'config' | 'sql' | 'log'>, deps: PublishingParts) {
  const { worker, siblings, allocateIds, metrics } = deps;
  const { baseUrl } = config;
  const handOver = createHandOver(deps);
  siblings?.receive('pullDeliveries', deps.onPullDeliveries);
  const onPullDeliveries = (webhookIds: readonly number[]): void => {
    deps.onPullDeliveries(webhookIds);
    siblings?.broadcast('pullDeliveries', webhookIds);
  };
  const onCommitted = (deliveries: readonly Committed[]): void => {
    const sent = deliveries.filter(isSent);
    if (sent.length < deliveries.length)
      onPullDeliveries(deliveries.filter(({ isHeld }) => isHeld).map(({ webhookId }) => webhookId));
    const committed = sent.map(handedOver);
    handOver(worker === undefined ? committed : worker.offer(committed));
  };
  const publish = createPublisher({
    sql,
    allocateIds,
    baseUrl,
    metrics,
    batchRows: config.events.batchRows,
    batchBytes: config.events.batchBytes,
    batchesAtOnce: config.events.batchesAtOnce,
    waitingBytes: config.events.waitingBytes,
    onCommitted,
    // It is unknown whether the batch was committed; its deliveries, if any, are found by polling.
    onUnknown: (error) => {
      log.warn({ err: error }, 'the result of a commit is unknown');
      worker?.rediscover();
    },
  });
  const resent = (delivery: Committed): void => {
    metrics.written({ events: 0, deliveries: 1 });
    onCommitted([delivery]);
  };
  return {
    publish,
    resent,
    refeeding: { allocateIds, baseUrl, metrics, onCommitted },
    ...deps.internalEvents,
  };
}

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

/** The databases and their current map, which may change while a process runs. */
export type MappedDatabases = { readonly map: ShardMap; readonly each: EachDatabase };

/**
 * Returns the changes of accounts that affect stores. Those in the home database are written in the same transaction, and those in other
 * databases through the outbox.
 */
export function withOutbox(
  inHome: InternalEvents,
  { databases, outbox }: { databases: MappedDatabases; outbox: Pick<Outbox, 'enqueue' | 'enqueueForAll'> },
): InternalEvents {
  const isHere = (storeId: number): boolean => databases.map.owners[shardOf(storeId)] === HOME;
  const enqueue = <Kind extends keyof Bodies>(tx: Queryable, storeId: number, kind: Kind, body: Bodies[Kind]) =>
    outbox.enqueue(tx, { shard: shardOf(storeId), kind, body });
  return {
    ...inHome,
    changelog: {
      record: async (tx, changes, now) => {
        await inHome.noteChanges(tx, changes, now);
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
      if (databases.map.version === 0) return;
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
      inAvailable(databases.each, (sql) => inHome.countStopped(sql, client, storeIds)),
    resumeWebhooks: async (tx, target, now) => {
      await inHome.resumeWebhooks(tx, { ...target, storeIds: target.storeIds.filter(isHere) }, now);
      for (const storeId of target.storeIds.filter((id) => !isHere(id)))
        await enqueue(tx, storeId, 'resume', { target: { ...target, storeIds: [storeId] }, now: now.toISOString() });
    },
  };
}

type ApplyDeps = InternalEvents & { copying: CopyDeps; now: () => Date };

/** Applies a change of the outbox in a transaction of another database. */
export async function applyChange(tx: Tx, { kind, body: stored }: OutboxChange, deps: ApplyDeps): Promise<void> {
  // `withOutbox` and the triggers `enqueue_store` and `enqueue_app_webhook` write it.
  const body = stored as Bodies[keyof Bodies];
  const now = 'now' in body ? new Date(body.now) : deps.now();
  if ('store_id' in body) await copyStore(tx, body.store_id, { ...deps.copying, now });
  else if ('client' in body) await copyDeclaration(tx, body.client, { ...deps, announce: deps.announceChanges }, now);
  else if ('changes' in body) await deps.changelog.record(tx, body.changes, now);
  else if ('target' in body) await deps.resumeWebhooks(tx, body.target, now);
  else if (kind === 'access') {
    await lockForAccess(tx, 'alone');
    await deps.accessChanged(tx, body.scope, now);
  } else throw new Error(`The outbox has a change of the unknown kind ${kind}`);
}
