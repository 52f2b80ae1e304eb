/** The delivery engine without the API: a publisher and workers over their own database. */
import { randomBytes } from 'node:crypto';
import { Registry } from '@prometheus-io/client';
import { createAnnouncer } from '#delivery/announce.ts';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import type { Resolve } from '#delivery/attempt/http/resolver.ts';
import { createEngineMetrics } from '#delivery/delivery-metrics.ts';
import { Worker, workOf, type CommittedDelivery } from '#delivery/worker.ts';
import { createIdAllocator } from '#db/partitions.ts';
import type { Committed } from '#events/publish/rows.ts';
import { createPublishMetrics, createPublisher, type PublishedEvent, type Publisher } from '#events/publish/publish.ts';
import type { Sql } from '#db/pool.ts';
import { createSealer, type Sealer } from '#db/seal.ts';
import { systemClock, type Clock } from '#core/clock.ts';
import { createLog, type Log } from '#core/log.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { createStore } from '#stores/store.ts';
import { createMailer } from '#mail/mailer.ts';
import { createNotices } from '#webhooks/notices/notices.ts';
import { createDisableWebhook, type DisableWebhook } from '#webhooks/webhook-end.ts';
import { NEVER_QUIET, passingClock, type PassingClock } from './clock.ts';
import { testDatabase } from './database.ts';
import { cleanups, type Cleanups } from './cleanups.ts';
import { resolverOf } from './name-server.ts';
import { until } from './until.ts';

export const KEY = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
export const BASE_URL = 'http://localhost:8080';

type WebhookOptions = {
  query?: string;
  isActive?: boolean;
  storeId?: number;
  ratePerSecond?: number;
  isOrdered?: boolean;
};

export type Engine = {
  sql: Sql;
  clock: PassingClock;
  sealer: Sealer;
  storeId: number;
  addWebhook: (url: string, options?: WebhookOptions) => Promise<number>;
  /** Publishes one event per resource id, by default in the first store, and hands the deliveries to the given worker. */
  publish: (resourceIds: readonly number[], worker?: Worker, storeId?: number) => Promise<PublishedEvent[]>;
  /** Resolves when so many deliveries have ended. */
  recorded: (count: number) => Promise<void>;
  addStore: () => Promise<number>;
  /** The publisher behind `publish`, for any store and event. Hands deliveries to the last named worker. */
  publisher: Publisher;
  handTo: (worker: Worker | undefined) => void;
  /** `own`: replacements of dependencies of the worker. */
  startWorker: (
    settings?: Partial<typeof defaults>,
    own?: { disableWebhook?: DisableWebhook; leaseClock?: Clock },
  ) => Promise<Worker>;
};

/** For workers that have to finish and record all attempts when they stop, however long the machine pauses. */
export const COMPLETE_STOP = { exchangesMs: 60_000, recordsMs: 60_000, handBackMs: 60_000 };

const defaults = {
  /** Longer than a pause of the machine: a worker that loses a shard causes its running attempts to be sent again. */
  leaseMs: 10_000,
  leaseMarginMs: 2_500,
  beatMs: 100,
  slots: 64,
  overdraftSlots: 64,
  slowAfterMs: 1_000,
  slowSlotsPercent: 25,
  newSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
  storeSlotsPercent: 100,
  originSlotsPercent: 100,
  slotsPerLane: 8,
  slotsPerSlowLane: 4,
  laneQueue: 50,
  endpointsKept: 1_000,
  heldDeliveries: 100_000,
  heldLanes: 20_000,
  unrecordedLimit: 2_000,
  hourlyStatsEveryMs: 2_000,
  hourlyStatsRows: 50_000,
  unfetchedDays: 30,
  deactivateAfterFailures: 12,
  deactivateAfterSeconds: { hour: 3_600, long: 272_105 },
  exchangeTimeoutMs: 5_000,
  answerReadBytes: 64 * 1024,
  answerKeptBytes: 16 * 1024,
  bodyCacheBytes: 8 * 1024 * 1024,
  connectTimeoutMs: 5_000,
  idleSockets: 100,
  idleSocketMs: 20_000,
  connectionAgeMs: 300_000,
  tlsSessions: 100,
  stopping: { exchangesMs: 1_000, recordsMs: 2_000, handBackMs: 2_000 },
  headerPrefix: 'Service',
  relationPrefix: 'svc',
  userAgent: 'Halcyon/test',
};

const handedOver = ({ shard, deliveryId, storeId, webhookId, epoch, dueAt, event }: Committed): CommittedDelivery => ({
  shard,
  delivery: { id: deliveryId, storeId, webhookId, epoch, eventId: event.id, attempts: 0, faults: 0, dueAt },
  event: { ...event, storeId },
});

/** Mails notices by the mail server at that address. */
function noticesBy(smtpUrl: string, { sql, clock, log, ends }: { sql: Sql; clock: Clock; log: Log; ends: Cleanups }) {
  const mailer = createMailer({ url: smtpUrl, from: { name: 'Halcyon', address: 'halcyon@example.com' }, log });
  const { deactivateAfterSeconds } = defaults;
  const notices = createNotices({
    accounts: sql,
    sql,
    clock,
    log,
    mailer,
    baseUrl: BASE_URL,
    authUrl: BASE_URL,
    deactivateAfterSeconds,
  });
  ends.after(() => mailer.stop());
  ends.after(() => notices.stop());
  return notices;
}

/** Starts the engine on its own database unless one is given. Benchmarks, which are not tests, also pass `ends`. */
export async function startEngine(
  given: {
    sql?: Sql;
    direct?: Sql;
    ends?: Cleanups;
    secretKey?: Buffer;
    log?: Log;
    clock?: PassingClock;
    resolve?: Resolve;
    smtpUrl?: string;
  } = {},
): Promise<Engine> {
  const ends = given.ends ?? cleanups();
  const sql = given.sql ?? (await testDatabase(ends)).sql;
  const clock = given.clock ?? passingClock();
  const sealer = createSealer(given.secretKey ?? randomBytes(32));
  const addStore = async (domain: string): Promise<number> => {
    const store = { name: 'Store', domain, email: 'a@example.com', timeZone: 'UTC' };
    return (await createStore(sql, { ...store, now: clock.now() })).id;
  };
  const firstStoreId = await addStore('store.example.com');
  const log = given.log ?? createLog('error');
  const announcer = createAnnouncer({ sql, log });
  ends.after(() => announcer.stop());
  const notices = given.smtpUrl === undefined ? undefined : noticesBy(given.smtpUrl, { sql, clock, log, ends });
  let receiverOfWork: Worker | undefined;
  const publisher = createPublisher({
    sql,
    allocateIds: createIdAllocator(),
    baseUrl: BASE_URL,
    metrics: createPublishMetrics(new Registry()),
    batchRows: 500,
    batchBytes: 4 * 1024 * 1024,
    batchesAtOnce: 4,
    waitingBytes: 64 * 1024 * 1024,
    onCommitted: (deliveries) => {
      const committed = deliveries.map(handedOver);
      for (const one of receiverOfWork?.offer(committed) ?? committed) announcer.work(workOf(one));
    },
    onUnknown: () => receiverOfWork?.rediscover(),
  });
  const handTo = (worker: Worker | undefined) => void (receiverOfWork = worker);
  let n = 1_000_000;
  return {
    sql,
    clock,
    sealer,
    storeId: firstStoreId,
    recorded: async (count) => {
      await until(
        () => sql`select from delivery_done`,
        ({ length }) => length === count,
      );
    },
    addStore: () => addStore(`store${(n += 1)}.example.com`),
    addWebhook: async (
      url,
      { query, isActive = true, storeId = firstStoreId, ratePerSecond, isOrdered = false } = {},
    ) => {
      const shard = shardOf(storeId);
      const id = idOf((n += 1), shard);
      await sql`
        insert into webhook (shard, id, store_id, name, format, version, url, query, encryption_key, event_resource, events,
          is_active, headers, rate_per_second, retry_profile, ordering, date_created, date_modified)
        values (${shard}, ${id}, ${storeId}, 'hook', 'json', '2', ${url}, ${query ?? null},
          ${sealer.seal(KEY, `webhook:${id}`)}, 'transaction', array['transaction/created'], ${isActive}, '{}',
          ${ratePerSecond ?? null}, 'hour', ${isOrdered ? 'resource' : null},
          now(), now())`;
      return id;
    },
    publish: (resourceIds, worker, storeId = firstStoreId) => {
      handTo(worker);
      const events = resourceIds.map((id) => ({
        type: 'transaction' as const,
        action: 'created',
        resourceId: String(id),
        modifiedAt: null,
        body: JSON.stringify({ id, total: 9.5, _embedded: { 'svc:items': [{ name: 'Brush', price: 9.5 }] } }),
      }));
      return publisher({ storeId, events, now: clock.now() });
    },
    publisher,
    handTo,
    startWorker: async (settings = {}, own = {}) => {
      const workerId = randomBytes(6).readUIntBE(0, 6);
      const guard = createGuard({ allowed: ['127.0.0.0/8', '::1'] }, given.resolve ?? resolverOf());
      const runtime = {
        sql,
        direct: given.direct ?? sql,
        clock,
        pace: NEVER_QUIET,
        random: () => 0,
        log,
        sealer,
        guard,
      };
      const worker = new Worker(runtime, {
        metrics: createEngineMetrics(new Registry()),
        leaseClock: { now: clock.now, monotonicMs: systemClock.monotonicMs },
        disableWebhook: createDisableWebhook(openInternalEvents({ baseUrl: BASE_URL })),
        notify: (notice) => notices?.notify(notice),
        ...own,
        settings: { ...defaults, ...settings, workerId },
      });
      ends.after(() => worker.stop());
      await worker.start();
      return worker;
    },
  };
}
