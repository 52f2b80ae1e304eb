/** Creates the delivery worker of a process, and what delivers at the request of an API caller. */
import { serversOf, transaction, type Sql } from '#db/pool.ts';
import type { Runtime, RuntimeConfig } from '#runtime/runtime.ts';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { createResolver } from '#delivery/attempt/http/resolver.ts';
import { PullStreams } from '#delivery/pull/pull-streams.ts';
import type { EngineMetrics } from '#delivery/delivery-metrics.ts';
import { createPreview } from '#delivery/attempt/preview.ts';
import { attemptsMaxOf } from '#delivery/policy/policy.ts';
import { DocumentRequests } from '#delivery/attempt/document-requests.ts';
import { Handshakes } from '#delivery/attempt/handshakes.ts';
import { TestDeliveries } from '#delivery/attempt/test-deliveries.ts';
import { Worker } from '#delivery/worker.ts';
import type { IdAllocator } from '#events/publish/publish-batch.ts';
import { createSamples } from '#events/publish/test-event.ts';
import type { SendingOnDemand } from '#webhooks/webhook-access.ts';
import { createNotices, type Notices } from '#webhooks/notices/notices.ts';
import { createDisableWebhook } from '#webhooks/webhook-end.ts';
import type { SendSample } from '#webhooks/send-now.ts';
import { VERSION } from './version.ts';
import type { InternalEvents } from './publishing.ts';

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

/** Creates the mail notices about webhooks; undefined if the operator has configured no mail. */
export function openNotices(
  { config, sql, clock, log, mailer }: Pick<Runtime, 'config' | 'sql' | 'clock' | 'log' | 'mailer'>,
  accounts: Sql,
): Notices | undefined {
  const { baseUrl, authUrl, delivery } = config;
  const { deactivateAfterSeconds } = delivery;
  return mailer && createNotices({ sql, accounts, clock, log, mailer, baseUrl, authUrl, deactivateAfterSeconds });
}

/** Returns the settings of delivery, with those of requests. */
function settingsOf({ delivery, baseUrl, naming, webhooks }: RuntimeConfig) {
  const { webhookHeaderPrefix: headerPrefix, relationPrefix } = naming;
  const userAgent = `Halcyon/${VERSION}`;
  return { ...delivery, baseUrl, headerPrefix, relationPrefix, userAgent, requestOrigin: webhooks.handshakeOrigin };
}

/** Creates the worker with the settings of the process without starting it. */
export function createWorker(
  runtime: Omit<Runtime, 'mailer' | 'derive'>,
  metrics: EngineMetrics,
  { changelog }: Pick<InternalEvents, 'changelog'>,
  notices: Notices | undefined,
): Worker {
  return new Worker(runtime, {
    settings: settingsOf(runtime.config),
    metrics,
    disableWebhook: createDisableWebhook(changelog),
    notify: (notice) => notices?.notify(notice),
  });
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
export function createOnDemandDelivery(
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
