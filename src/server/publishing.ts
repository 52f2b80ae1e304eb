/** What publishes in a process, and who is told of the deliveries that come of it. */
import { createChangelog } from '#changelog/changelog.ts';
import type { Sql } from '#db/pool.ts';
import { announceChanged, announceErased, announceWork, type Announcer } from '#delivery/announce.ts';
import type { CommittedDelivery, Worker } from '#delivery/worker.ts';
import { createIdAllocator, type IdAllocator } from '#events/publish/id-allocator.ts';
import type { Committed } from '#events/publish/rows.ts';
import type { Holders } from '#events/erase/chain.ts';
import type { PublishMetrics } from '#events/metrics.ts';
import { createInternalEventWriter, type InternalEventDeps } from '#events/publish/internal-event.ts';
import { createPublisher } from '#events/publish/publish.ts';
import type { Log } from '#core/log.ts';
import type { WebhookDeps } from '#webhooks/access.ts';
import { createAppAccess } from '#webhooks/app-access/app-access.ts';
import type { Config } from '#config/config.ts';

const handedOver = ({ shard, deliveryId, storeId, webhookId, epoch, dueAt, event }: Committed): CommittedDelivery => ({
  shard,
  delivery: { id: deliveryId, storeId, webhookId, epoch, eventId: event.id, attempts: 0, faults: 0, dueAt },
  event: { ...event, storeId },
});

/** Of what is held no worker is told: a listener fetches it. */
const isSent = ({ isHeld }: Committed): boolean => !isHeld;

const announceSent: InternalEventDeps['announce'] = (tx, deliveries) => announceWork(tx, deliveries.filter(isSent));

/** Webhooks that change, told to all who send when the transaction commits. */
export const announceChanges: WebhookDeps['announce'] = (tx, shard, ids) =>
  announceChanged(
    tx,
    ids.map((webhookId) => ({ shard, webhookId })),
  );

/** What Halcyon tells of itself. A command needs no more: it has no worker, and the owners hear of its deliveries. */
export const openInternalEvents = (
  { baseUrl }: Pick<Config, 'baseUrl'>,
  allocateIds: IdAllocator = createIdAllocator(),
) => {
  const writeFacts = createInternalEventWriter({ allocateIds, baseUrl, announce: announceSent });
  const changelog = createChangelog(writeFacts);
  return { writeFacts, changelog, ...createAppAccess({ changelog, announce: announceChanges }) };
};

/** Who holds events in memory, and has to hear what was erased: the worker of this process at once, all others by word. */
export const holdersOf = (worker: Worker | undefined): Holders => ({
  announce: announceErased,
  forget: ({ ids }) => worker?.eventsErased(ids),
});

export const openPublishing = (deps: {
  config: Config;
  sql: Sql;
  log: Log;
  worker: Worker | undefined;
  announcer: Announcer;
  /** The process' one. */
  allocateIds: IdAllocator;
  metrics: PublishMetrics;
  /** Told of the webhooks for whose listeners something was held, after its commit. */
  onHeld: (webhookIds: readonly number[]) => void;
}) => {
  const { config, sql, log, worker, announcer, allocateIds, onHeld } = deps;
  const { baseUrl } = config;
  const { metrics } = deps;
  const onCommitted = (deliveries: readonly Committed[]): void => {
    const sent = deliveries.filter(isSent);
    if (sent.length < deliveries.length)
      onHeld(deliveries.filter(({ isHeld }) => isHeld).map(({ webhookId }) => webhookId));
    const foreign = worker === undefined ? sent : worker.offer(sent.map(handedOver));
    for (const lane of foreign) announcer.work(lane);
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
    // Whether the batch was committed is unknown: what it left, if anything, is found in the table.
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
    ...openInternalEvents(config, allocateIds),
  };
};

export type Publishing = ReturnType<typeof openPublishing>;
