/** Creates the delivery worker of a process and the jobs that follow its shards. */
import { serversOf, transaction, type Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { announceWork } from '#delivery/announce.ts';
import type { Guard } from '#core/guard.ts';
import { createGuard } from '#delivery/attempt/http/guard.ts';
import { createResolver } from '#delivery/attempt/http/resolver.ts';
import { PullStreams } from '#delivery/pull/streams.ts';
import type { EngineMetrics } from '#delivery/delivery-metrics.ts';
import { createPreview } from '#delivery/attempt/preview.ts';
import { attemptsMaxOf } from '#delivery/policy/policy.ts';
import { Handshakes } from '#delivery/attempt/handshake.ts';
import { TestDeliveries } from '#delivery/attempt/test-delivery.ts';
import { Worker } from '#delivery/worker.ts';
import type { IdAllocator } from '#events/publish/batch.ts';
import { startSnapshots } from '#events/snapshots/snapshots.ts';
import type { RecoveryMetrics } from '#events/event-metrics.ts';
import { startRecoveries } from '#events/replay/recoveries.ts';
import { createSamples } from '#events/publish/sample.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Mailer } from '#mail/mail.ts';
import type { SendingOnDemand } from '#webhooks/access.ts';
import { createNotices, type Notices } from '#webhooks/notices/notices.ts';
import { createDisableWebhook } from '#webhooks/disable.ts';
import type { SendSample } from '#webhooks/test-delivery.ts';
import type { AppDeps } from './app.ts';
import type { Config } from '#config/config.ts';
import { VERSION } from './version.ts';
import type { InternalEvents } from './publishing.ts';

/**
 * The destinations that deliveries may reach. A process that only delivers also protects the API's own ports: it may run
 * beside it. `protect`: protects a further database server.
 */
export function openGuard({
  config,
  sql,
  direct,
  clock,
}: Pick<AppDeps, 'config' | 'sql' | 'direct' | 'clock'>): Guard & { protect: (server: Sql) => void } {
  const { host, port, metricsPort } = config;
  const { outboundProxy } = config.delivery;
  const proxies = outboundProxy === undefined ? [] : [outboundProxy];
  const own = [{ host, port }, { host, port: metricsPort }, ...proxies, ...serversOf(sql), ...serversOf(direct)];
  const resolve = createResolver({ clock, settings: config.delivery });
  const guard = createGuard({ allowed: config.delivery.allowedNetworks, own }, resolve);
  return { ...guard, protect: (server) => void own.push(...serversOf(server)) };
}

/** Creates the mail notices about webhooks; undefined if the operator has configured no mail. */
export function openNotices(
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  accounts: Sql,
  mailer: Mailer | undefined,
): Notices | undefined {
  const { baseUrl, authUrl, delivery } = config;
  const { deactivateAfterSeconds } = delivery;
  return mailer && createNotices({ sql, accounts, clock, log, mailer, baseUrl, authUrl, deactivateAfterSeconds });
}

const USER_AGENT = `Halcyon/${VERSION}`;

function sendingOf({ naming, webhooks }: Pick<Config, 'naming' | 'webhooks'>) {
  const { webhookHeaderPrefix: headerPrefix, relationPrefix } = naming;
  return { headerPrefix, relationPrefix, userAgent: USER_AGENT, requestOrigin: webhooks.handshakeOrigin };
}

/** Creates the worker with the settings of the process without starting it. */
export function createWorker(
  { config, sql, direct, clock, random, log }: Pick<AppDeps, 'config' | 'sql' | 'direct' | 'clock' | 'random' | 'log'>,
  sealer: Sealer,
  guard: Guard,
  metrics: EngineMetrics,
  { changelog }: Pick<InternalEvents, 'changelog'>,
  notices: Notices | undefined,
): Worker {
  return new Worker({
    sql,
    direct,
    clock,
    leaseClock: clock,
    random,
    log,
    sealer,
    guard,
    metrics,
    disableWebhook: createDisableWebhook(changelog),
    notify: (notice) => notices?.notify(notice),
    settings: {
      ...config.delivery,
      ...sendingOf(config),
    },
  });
}

/** Shows requests as they will be sent; used by processes that serve the API. */
function openPreview(
  { config, sql, log }: Pick<AppDeps, 'config' | 'sql' | 'log'>,
  sealer: Sealer,
): SendingOnDemand['preview'] {
  const { delivery, baseUrl } = config;
  return createPreview({ sql, sealer, log, baseUrl, settings: { ...delivery, ...sendingOf(config) } });
}

type SampleSender = Running & { sendSample: SendSample };

/** Serves the streams of pull webhooks in processes that serve the API; needs no worker. */
function openPullStreams(
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  sealer: Sealer,
): PullStreams {
  const { delivery, baseUrl } = config;
  const settings = { ...delivery, ...config.pull, ...sendingOf(config) };
  return new PullStreams({ sql, sealer, clock, log, baseUrl, settings });
}

/** Sends test deliveries in processes that serve the API; needs no worker. */
function openTestDeliveries(
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  sealer: Sealer,
  guard: Guard,
  allocateIds: IdAllocator,
  onPullDeliveries: PullStreams['wake'],
): SampleSender {
  const { delivery, baseUrl } = config;
  const settings = { ...delivery, idleSockets: delivery.testDeliveriesAtOnce, ...sendingOf(config) };
  const testDeliveries = new TestDeliveries({ sql, guard, sealer, clock, log, settings });
  const samples = createSamples({ sql, allocateIds, baseUrl });
  return {
    sendSample: async ({ shard, webhookId: id, isHeld, ...about }) => {
      if (isHeld) {
        const event = await samples.make(about);
        const deliveryId = await transaction(sql, (tx) => samples.insertForPull(tx, event, id));
        if (deliveryId === undefined) return { kind: 'nowhere' };
        onPullDeliveries([id]);
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
    },
    stop: () => testDeliveries.stop(),
  };
}

/** Asks endpoints for their consent, in processes that serve the API; undefined if the operator does not require it. */
function openHandshakes(
  { config, clock, log }: Pick<AppDeps, 'config' | 'clock' | 'log'>,
  guard: Guard,
): Handshakes | undefined {
  const requestOrigin = config.webhooks.handshakeOrigin;
  if (requestOrigin === undefined) return undefined;
  return new Handshakes({ guard, clock, log, settings: { ...config.delivery, requestOrigin, userAgent: USER_AGENT } });
}

/** Creates the parts that send, stream and preview deliveries when an API caller requests it. */
export function createOnDemandDelivery(
  deps: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  sealer: Sealer,
  guard: Guard,
  allocateIds: IdAllocator,
) {
  const pullStreams = openPullStreams(deps, sealer);
  const onPullDeliveries = (webhookIds: readonly number[]): void => pullStreams.wake(webhookIds);
  const testDeliveries = openTestDeliveries(deps, sealer, guard, allocateIds, onPullDeliveries);
  const handshakes = openHandshakes(deps, guard);
  const sending: SendingOnDemand = {
    handshake: handshakes,
    preview: openPreview(deps, sealer),
    attemptsMaxOf,
    sendSample: testDeliveries.sendSample,
  };
  return { pullStreams, onPullDeliveries, testDeliveries, handshakes, sending };
}

/** Publishes revenue snapshots of the worker's shards, so that they continue while no API is served. */
export function publishSnapshots(
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  worker: Worker,
  { writeInternalEvents }: Pick<InternalEvents, 'writeInternalEvents'>,
): Running {
  return startSnapshots({
    sql,
    clock,
    log,
    writeInternalEvents,
    shards: () => worker.ownedShards(),
    settings: config.snapshots,
  });
}

/** Runs recoveries of the worker's shards; the same worker sends their deliveries. */
export function recoverEvents(
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  worker: Worker,
  metrics: RecoveryMetrics,
): Running {
  return startRecoveries({
    sql,
    clock,
    log,
    metrics,
    announce: announceWork,
    shards: () => worker.ownedShards(),
    settings: config.recoveries,
  });
}
