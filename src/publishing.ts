/** What publishes in a process, and who is told of the deliveries that come of it. */
import { createChangelog } from '#changelog/changelog.ts';
import type { Sql } from '#database/pool.ts';
import { announceErased, announceWork, type Announcer } from '#delivery/announce.ts';
import type { HandedOver, Worker } from '#delivery/worker.ts';
import { createMint, type Mint } from '#events/batch/mint.ts';
import type { Committed } from '#events/batch/rows.ts';
import type { Holders } from '#events/erasure/chain/chain.ts';
import type { PublishMetrics } from '#events/metrics.ts';
import { createNativeWriter } from '#events/native.ts';
import { createPublisher } from '#events/publish.ts';
import type { Log } from '#kernel/log.ts';
import type { Config } from './config.ts';

const handedOver = ({ shard, deliveryId, storeId, webhookId, epoch, dueAt, event }: Committed): HandedOver => ({
  shard,
  delivery: { id: deliveryId, storeId, webhookId, epoch, eventId: event.id, attempts: 0, faults: 0, dueAt },
  event: { ...event, storeId },
});

/** What Halcyon tells of itself. A command needs no more: it has no worker, and the owners hear of its deliveries. */
export const openNative = ({ baseUrl }: Pick<Config, 'baseUrl'>, mint: Mint = createMint()) => {
  const writeFacts = createNativeWriter({ mint, baseUrl, announce: announceWork });
  return { writeFacts, changelog: createChangelog(writeFacts) };
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
  mint: Mint;
  metrics: PublishMetrics;
}) => {
  const { config, sql, log, worker, announcer, mint } = deps;
  const { baseUrl } = config;
  const publish = createPublisher({
    sql,
    mint,
    baseUrl,
    metrics: deps.metrics,
    batchRows: config.events.batchRows,
    batchBytes: config.events.batchBytes,
    waitingBytes: config.events.waitingBytes,
    onCommitted: (deliveries) => {
      const foreign = worker === undefined ? deliveries : worker.offer(deliveries.map(handedOver));
      for (const lane of foreign) announcer.work(lane);
    },
    // Whether the batch was committed is unknown: what it left, if anything, is found in the table.
    onUnknown: (error) => {
      log.warn({ reason: String(error) }, 'the result of a commit is unknown');
      worker?.rediscover();
    },
  });
  return { publish, ...openNative(config, mint) };
};

export type Publishing = ReturnType<typeof openPublishing>;
