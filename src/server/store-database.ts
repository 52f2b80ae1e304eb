/**
 * The parts of a process that use one database with stores. A process has one for each database of the map of shards. A pool is suspended
 * while its database does not respond: a request about one of its stores is refused at once, instead of after a time-out, and a server that
 * returns is not met by the requests of all processes.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Registry } from '@prometheus-io/client';
import {
  announceWhileWorking,
  serversOf,
  transaction,
  type Sql,
  openDedicated,
  resume,
  suspend,
  type Tx,
} from '#db/pool.ts';
import type { Runtime, RuntimeConfig } from '#runtime/runtime.ts';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { createResolver } from '#delivery/attempt/http/resolver.ts';
import { startFollowing } from '#webhooks/app-access/follow.ts';
import { PullStreams } from '#delivery/pull/pull-streams.ts';
import { createPreview, TestDeliveries } from '#delivery/attempt/test-deliveries.ts';
import { attemptsMaxOf } from '#delivery/policy/policy.ts';
import { DocumentRequests, Handshakes } from '#delivery/attempt/single-requests.ts';
import { Worker } from '#delivery/worker.ts';
import { type IdAllocator, createIdAllocator, keepPartitions } from '#db/partitions.ts';
import { createSamples } from '#events/sample-events.ts';
import type { SendingOnDemand } from '#webhooks/webhook-access.ts';
import { createNotices } from '#webhooks/notices/notices.ts';
import { createDisableWebhook, createWebhooksOfStore } from '#webhooks/webhook-end.ts';
import type { SendSample } from '#webhooks/send-now.ts';
import { LiveStreams } from '#dashboard/live.ts';
import { announceWork, createAnnouncer, retryNow } from '#delivery/announce.ts';
import { rescheduleSnapshot, startSnapshots } from '#events/snapshots.ts';
import { startRecoveries } from '#events/replay/recoveries.ts';
import { stopAll, within, type Running } from '#core/lifecycle.ts';
import { ACCOUNTS_HERE, accountsIn, HOME } from '#shards/map.ts';
import type { OutboxChange } from '#shards/outbox-sql.ts';
import { ping } from '#db/activity.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Log } from '#core/log.ts';
import { VERSION } from './version.ts';
import {
  applyChange,
  eventCachesOf,
  openInternalEvents,
  openPublishing,
  ChangedWebhooks,
  withOutbox,
  type MappedDatabases,
} from './publishing.ts';
import type { Outbox } from '#shards/outbox.ts';
import { purgesOfHome, purgesOfStores, startRetention } from './retention.ts';
import { observeStores } from './telemetry.ts';
import type { Role, StorePools } from './app.ts';
import type { DatabaseSiblings } from './supervisor.ts';

/**
 * The destinations that deliveries may reach. A process that only delivers also protects the API's own ports: it may run
 * beside it. `protect`: protects a further database server.
 */
export function openGuard({ config, sql, direct, clock }: Pick<Runtime, 'config' | 'sql' | 'direct' | 'clock'>) {
  const { host, port, metricsPort } = config;
  const { outboundProxy } = config.delivery;
  const proxies = outboundProxy === undefined ? [] : [outboundProxy];
  const own = [{ host, port }, { host, port: metricsPort }, ...proxies, ...serversOf(sql), ...serversOf(direct)];
  const resolve = createResolver({ clock, settings: config.delivery });
  const guard = createGuard({ allowed: config.delivery.allowedNetworks, own }, resolve);
  return { ...guard, protect: (server: Sql) => void own.push(...serversOf(server)) };
}

/** Returns the settings of delivery, with those of requests. */
function settingsOf({ delivery, baseUrl, naming, webhooks }: RuntimeConfig) {
  const { webhookHeaderPrefix: headerPrefix, relationPrefix } = naming;
  const userAgent = `Halcyon/${VERSION}`;
  return { ...delivery, baseUrl, headerPrefix, relationPrefix, userAgent, requestOrigin: webhooks.handshakeOrigin };
}

/** Sends test deliveries, in processes that serve the API: one of a pull webhook is added to those that its listener fetches. */
function createSendSample(
  { config, sql }: Pick<Runtime, 'config' | 'sql'>,
  allocateIds: IdAllocator,
  testDeliveries: TestDeliveries,
  pullStreams: PullStreams,
): SendSample {
  const samples = createSamples({ sql, allocateIds, baseUrl: config.baseUrl });
  return async ({ shard, webhookId: id, isHeld, ...about }) => {
    if (isHeld) {
      const event = await samples.make(about);
      const deliveryId = await transaction(sql, (tx) => samples.insertForPull(tx, event, id));
      if (deliveryId === undefined) return { kind: 'nowhere' };
      pullStreams.wake([id]);
      const { id: eventId, type, resourceId, action } = event;
      return { kind: 'queued', delivery: { id: deliveryId, eventId, type, resourceId, action } };
    }
    const sample = { make: () => samples.make(about), keep: samples.keep };
    const result = await testDeliveries.send({ shard, id, storeId: about.storeId }, sample);
    if (result.kind !== 'sent') return result;
    const { event, deliveryId, attempt } = result;
    const { type, resourceId, action } = event;
    const { startedAt: dateStarted, ...rest } = attempt;
    return { kind: 'sent', attempt: { ...rest, type, resourceId, action, deliveryId, n: 1, dateStarted } };
  };
}

/** Creates the parts that send, stream and preview deliveries when an API caller requests it. They need no worker. */
function createOnDemandDelivery(
  runtime: Pick<Runtime, 'config' | 'sql' | 'clock' | 'log' | 'sealer' | 'guard'>,
  allocateIds: IdAllocator,
) {
  const settings = settingsOf(runtime.config);
  const pullStreams = new PullStreams(runtime, { ...settings, ...runtime.config.pull });
  const testDeliveries = new TestDeliveries(runtime, settings);
  const { requestOrigin } = settings;
  const handshake = requestOrigin === undefined ? undefined : new Handshakes(runtime, { ...settings, requestOrigin });
  const sending: SendingOnDemand = {
    handshake,
    preview: createPreview(runtime, settings),
    attemptsMaxOf,
    sendSample: createSendSample(runtime, allocateIds, testDeliveries, pullStreams),
  };
  return {
    pullStreams,
    testDeliveries,
    handshakes: handshake,
    documents: new DocumentRequests(runtime, settings),
    sending,
  };
}

const WATCH_MS = 1_000;
/** A server that is only busy responds within this time. */
const RESPONSE_MS = 3_000;

export class DatabaseWatch implements Running {
  readonly #deps: { id: number; sql: Sql; log: Log };
  readonly #connection: Sql;
  readonly #stopping = new AbortController();
  #isSuspended = false;
  #watching: Promise<void> | undefined;

  constructor({ direct, ...deps }: { id: number; sql: Sql; direct: Sql; log: Log }) {
    this.#deps = deps;
    this.#connection = openDedicated(direct, RESPONSE_MS);
  }

  start(): void {
    this.#watching ??= this.#watch();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#connection.end({ timeout: 0 });
    await this.#watching;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#check();
      await delay(WATCH_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #check(): Promise<void> {
    const { id, sql, log } = this.#deps;
    try {
      await ping(this.#connection);
      if (this.#isSuspended) log.warn({ database: id }, 'database responds again');
      this.#isSuspended = false;
      resume(sql);
    } catch (error) {
      if (this.#stopping.signal.aborted || !isUnavailable(error)) return;
      if (!this.#isSuspended)
        log.error({ database: id, reason: String(error) }, 'database does not respond; its requests are refused');
      this.#isSuspended = true;
      suspend(sql, String(error));
    }
  }
}

type DatabaseDeps = {
  id: number;
  /** With the connections of the database. */
  runtime: Runtime;
  roles: readonly Role[];
  siblings: DatabaseSiblings | undefined;
  home: Sql;
  registry: Registry;
  databases: MappedDatabases;
  /** Applies changes of the home database to the other databases. */
  outbox: Outbox;
} & Pick<StorePools, 'prepare' | 'close'>;

/** What delivers. None of it has a connection yet. */
function createDelivering(deps: DatabaseDeps) {
  const { id, runtime, roles, registry, home, siblings } = deps;
  const { config, sql, clock, log, mailer } = runtime;
  const { baseUrl, authUrl, delivery } = config;
  const { deactivateAfterSeconds } = delivery;
  // One allocator per process and database: ids rise in the order of events in this process.
  const allocateIds = createIdAllocator(clock.monotonicMs.bind(clock));
  const observing = observeStores(registry, runtime, id);
  const accounts = id === HOME ? ACCOUNTS_HERE : accountsIn(home);
  const changed = new ChangedWebhooks(siblings);
  const internalEvents = openInternalEvents(config, allocateIds, accounts, changed.onChanged);
  const announcer = createAnnouncer({ sql, log });
  const notices =
    mailer && createNotices({ sql, accounts: home, clock, log, mailer, baseUrl, authUrl, deactivateAfterSeconds });
  const worker = roles.includes('deliver')
    ? new Worker(runtime, {
        settings: settingsOf(config),
        metrics: observing.engine,
        disableWebhook: createDisableWebhook(internalEvents),
        notify: (notice) => notices?.notify(notice),
      })
    : undefined;
  if (worker !== undefined) {
    changed.add((webhook) => worker.webhookChanged(webhook));
    siblings?.receive('eventsErased', worker.eventsErased);
  }
  return { allocateIds, observing, changed, internalEvents, announcer, notices, worker };
}
type Delivering = ReturnType<typeof createDelivering>;

/** What serves requests about stores of the database. */
function createServing(deps: DatabaseDeps, delivering: Delivering) {
  const { id, runtime, siblings, databases, outbox } = deps;
  const { allocateIds, observing, changed, internalEvents, announcer, worker } = delivering;
  const onDemand = createOnDemandDelivery(runtime, allocateIds);
  const publishing = openPublishing(runtime, {
    worker,
    announcer,
    siblings,
    allocateIds,
    internalEvents: id === HOME ? withOutbox(internalEvents, { databases, outbox }) : internalEvents,
    metrics: observing.publishing,
    onPullDeliveries: (webhookIds) => onDemand.pullStreams.wake(webhookIds),
  });
  changed.add(({ webhookId }) => onDemand.pullStreams.changed(webhookId));
  const liveStreams = new LiveStreams(runtime, runtime.config.livePages);
  const caches = eventCachesOf(worker, siblings);
  const changes = { announce: internalEvents.announceChanges, retryNow };
  return { ...onDemand, changes, publishing, liveStreams, caches };
}
export type Serving = ReturnType<typeof createServing>;

/** Starts what runs by itself, and adds each part to `running`. */
async function startParts(
  deps: DatabaseDeps,
  { allocateIds, observing, internalEvents, worker }: Delivering,
  serving: Serving | undefined,
  running: Running[],
): Promise<void> {
  const { id, runtime, registry, databases } = deps;
  const { config, sql, direct, clock, pace, log } = runtime;
  const { exchangesMs, recordsMs, handBackMs, othersMs } = config.stopping;
  const keep = (part: Running, limitMs = othersMs): void => void running.push(within(limitMs, part));
  await deps.prepare();
  keep(announceWhileWorking(sql, pace));
  keep(await keepPartitions({ direct, clock, pace, log, retentionDays: config.database.retentionDays }));
  keep(startFollowing({ ...internalEvents, sql, clock, pace, log, announce: internalEvents.announceChanges }));
  if (worker !== undefined) {
    keep(worker, exchangesMs + recordsMs + handBackMs);
    await worker.start();
    // The jobs of stores run in the worker of their shard, so that they continue while no API is served.
    const { snapshots, recoveries } = config;
    const shards = () => worker.ownedShards();
    const { writeInternalEvents } = internalEvents;
    keep(startSnapshots({ sql, clock, pace, log, writeInternalEvents, shards, settings: snapshots }));
    const metrics = observing.recoveries;
    const changes = () => worker.changes;
    const jobs = { sql, clock, pace, log, metrics, allocateIds, announce: announceWork, shards, changes };
    keep(startRecoveries({ ...jobs, settings: recoveries }));
  }
  if (serving === undefined) return;
  const { caches, publishing } = serving;
  const ofStores = purgesOfStores({ ...runtime, ...publishing, caches });
  const purges = id === HOME ? purgesOfHome({ ...runtime, ...publishing, each: databases.each, ofStores }) : ofStores;
  keep(startRetention(runtime, config.housekeeping, { registry, purges }));
}

/** Creates the parts of a database. They connect when they are used or started. */
export function openStoreDatabase(deps: DatabaseDeps) {
  const { id, runtime, home, roles } = deps;
  const { config, sql, direct, clock, log } = runtime;
  const { othersMs } = config.stopping;
  const watch = new DatabaseWatch({ id, sql, direct, log });
  const delivering = createDelivering(deps);
  const { announcer, notices, internalEvents, worker } = delivering;
  const serving = roles.includes('serve') ? createServing(deps, delivering) : undefined;
  // The parts stop in reverse order.
  const running: Running[] = [watch, announcer, notices]
    .filter((part) => part !== undefined)
    .map((part) => within(othersMs, part));
  const webhooksOfStore = createWebhooksOfStore(internalEvents);
  const copying = {
    home,
    onDomainChanged: webhooksOfStore.renew,
    onTimeZoneChanged: rescheduleSnapshot,
    onErased: webhooksOfStore.erase,
  };
  const applying = { ...internalEvents, copying, now: () => clock.now() };
  return {
    id,
    runtime,
    sql,
    worker,
    notices,
    webhooksOfStore,
    writeInternalEvents: internalEvents.writeInternalEvents,
    /** Undefined in a process that only delivers. */
    serving,
    /** Starts to watch the database: its pool is suspended while it does not respond. Does nothing if it is watched already. */
    watch: () => watch.start(),
    start: () => startParts(deps, delivering, serving, running),
    /** Applies a change of the home database. */
    apply: (tx: Tx, change: OutboxChange) => applyChange(tx, change, applying),
    /** Ends the streams and requests that would keep connections of the server open. */
    stopStreams: async () => {
      if (serving === undefined) return;
      const { liveStreams, pullStreams, handshakes, documents, testDeliveries } = serving;
      const streams = [testDeliveries, handshakes, documents, pullStreams, liveStreams].filter(
        (part) => part !== undefined,
      );
      await stopAll(
        streams.map((part) => within(othersMs, part)),
        log,
      );
    },
    stop: async () => {
      await stopAll(running, log);
      await deps.close();
    },
  };
}
export type StoreDatabase = ReturnType<typeof openStoreDatabase>;
