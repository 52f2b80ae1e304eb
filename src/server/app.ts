/** Starts and stops the parts of a process. compose.ts wires the request handlers. */
import { platform } from 'node:os';
import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { keepPartitions } from '#db/partition-keeper.ts';
import type { Sql } from '#db/pool.ts';
import { whyUnavailable } from '#db/why-unavailable.ts';
import { createSealer, type Sealer } from '#db/seal.ts';
import { declareFile } from '#catalog/own/file.ts';
import { createAnnouncer } from '#delivery/announce.ts';
import type { Worker } from '#delivery/worker.ts';
import { createIdAllocator } from '#events/publish/batch.ts';
import { createRateLimit, type TakenChannel } from '#http/rate-limit.ts';
import { rootOf } from '#http/root.ts';
import { createServer } from '#http/server.ts';
import type { Services } from '#http/services.ts';
import type { Clock } from '#core/clock.ts';
import type { Keys } from '#core/keys.ts';
import { stopAll, within, type Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { createMailer } from '#mail/mailer.ts';
import { createBearer } from '#identity/oauth/bearer.ts';
import type { Config } from '#config/config.ts';
import {
  createWorker,
  createOnDemandDelivery,
  openGuard,
  openNotices,
  recoverEvents,
  publishSnapshots,
} from './delivery.ts';
import { createPurges } from './purges.ts';
import { startRetention } from './retention.ts';
import { openObserving, type Observing } from './telemetry.ts';
import { eventCachesOf, openInternalEvents, openPublishing, type Publishing } from './publishing.ts';
import { compose } from './compose.ts';
import { routesOf } from './routes.ts';
import type { Siblings } from './siblings.ts';

export type Role = 'serve' | 'deliver';

export type AppDeps = {
  config: Config;
  sql: Sql;
  /** Direct connection to PostgreSQL for session features: locks that outlive a transaction, LISTEN. */
  direct: Sql;
  /** 32 bytes each: they seal secrets at rest and derive other keys. */
  secretKeys: Keys;
  clock: Clock;
  random: () => number;
  log: Log;
  roles: readonly Role[];
  /** The connection to the supervisor, if there is one. */
  siblings?: Siblings | undefined;
};

const keepRetention = (
  { config, sql, direct, clock, log, siblings }: AppDeps,
  registry: Registry,
  sealer: Sealer,
  worker: Worker | undefined,
  { changelog, accessChanged }: Pick<Publishing, 'changelog' | 'accessChanged'>,
): Running =>
  startRetention({
    direct,
    clock,
    log,
    registry,
    settings: config.housekeeping,
    purges: createPurges({
      config,
      sql,
      log,
      sealer,
      caches: eventCachesOf(worker, siblings),
      changelog,
      accessChanged,
    }),
  });

/**
 * Each process listens by itself, and the kernel distributes connections. node:cluster's own distribution, which remains where the
 * kernel has none (macOS), leaves a client without a response if its connection was under way to a process that was killed.
 */
const SHARED_PORT = { reusePort: platform() === 'linux' };

const takenChannel = (siblings: Siblings): TakenChannel => ({
  send: (taken) => siblings.broadcast('requests', taken),
  receive: (handler) => siblings.receive('requests', handler),
});

function openServer(
  { config, clock, log, siblings }: AppDeps,
  handlers: Parameters<typeof routesOf>[0],
  {
    bearer,
    ...parts
  }: Pick<Services, 'pages' | 'designedPages' | 'idempotency' | 'metrics'> & { bearer: Services['authenticate'] },
): FastifyInstance {
  const services: Services = {
    settings: {
      ...config.http,
      versionHeader: config.naming.versionHeader,
      authOrigin: new URL(config.authUrl).origin,
      apiOrigin: new URL(config.baseUrl).origin,
      home: `${rootOf(config.authUrl)}/account`,
    },
    naming: { baseUrl: config.baseUrl, relationPrefix: config.naming.relationPrefix },
    clock,
    log,
    authenticate: bearer,
    ...parts,
    rateLimit: createRateLimit(config.rate, clock, siblings && takenChannel(siblings)),
    whyUnavailable,
  };
  return createServer(services, routesOf(handlers, config));
}

/** Waits for running requests, at most for the time limit. */
async function closeServer(server: FastifyInstance, timeoutMs: number): Promise<void> {
  const late = setTimeout(() => server.server.closeAllConnections(), timeoutMs);
  await server.close();
  clearTimeout(late);
}

/** Starts the parts in order and adds each to `running` before the next one, so that they can be stopped if one fails. */
async function startParts(deps: AppDeps, running: Running[]): Promise<Observing> {
  const { config, sql, direct, clock, log, secretKeys, siblings } = deps;
  const { exchangesMs, recordsMs, handBackMs, othersMs, mailsMs, requestsMs } = config.stopping;
  const keep = <Part extends Running | undefined>(part: Part, limitMs = othersMs): Part => {
    if (part !== undefined) running.push(within(limitMs, part));
    return part;
  };
  const sealer = createSealer(...secretKeys);
  const guard = openGuard(deps);
  // One allocator per process: ids rise in the order of events in this process.
  const allocateIds = createIdAllocator(() => clock.monotonicMs());
  const observing = keep(await openObserving(deps));
  const { registry, health, engine, publishing: metrics } = observing;
  keep(await keepPartitions({ direct, clock, log, retentionDays: config.database.retentionDays }));
  const announcer = keep(createAnnouncer({ sql, log }));
  const mailer = keep(config.mail === undefined ? undefined : createMailer({ ...config.mail, log }), mailsMs);
  const notices = keep(openNotices(deps, mailer));
  const worker = deps.roles.includes('deliver')
    ? keep(createWorker(deps, sealer, guard, engine, allocateIds, notices), exchangesMs + recordsMs + handBackMs)
    : undefined;
  if (worker !== undefined) {
    observing.check(() => (worker.leaseIsValid() ? undefined : 'lease'));
    siblings?.receive('eventsErased', worker.eventsErased);
    await worker.start();
    keep(publishSnapshots(deps, worker, allocateIds));
    keep(recoverEvents(deps, worker, observing.recoveries));
  }
  if (deps.roles.includes('serve')) {
    keep(keepRetention(deps, registry, sealer, worker, openInternalEvents(config, allocateIds)));
    const bearer = createBearer({ sql, baseUrl: config.baseUrl });
    const { pullStreams, sending, onPullDeliveries, testDeliveries, handshakes } = createOnDemandDelivery(
      deps,
      sealer,
      guard,
      allocateIds,
    );
    const publishing = openPublishing({
      config,
      sql,
      log,
      worker,
      announcer,
      siblings,
      allocateIds,
      metrics,
      onPullDeliveries,
    });
    const { handlers, liveStreams, ...services } = compose({
      ...deps,
      publishing,
      pullStreams,
      sending,
      health,
      bearer,
      mailer,
      notices,
      sealer,
      guard,
      worker,
    });
    const server = openServer(deps, handlers, { ...services, bearer, metrics: observing.requests });
    running.push({ stop: () => closeServer(server, requestsMs) });
    // Streams must end before the server waits for their connections.
    for (const streams of [testDeliveries, handshakes, pullStreams, liveStreams]) keep(streams);
    await server.listen({ host: config.host, port: config.port, ...(siblings && SHARED_PORT) });
  }
  return observing;
}

/**
 * Starts the roles over a migrated database: delivery first, so that accepted events do not wait. `stop` stops them in
 * reverse order: it accepts nothing new, then finishes or hands back running work. If one of them cannot start, such as
 * the server whose port is taken, the others are stopped before the error is thrown.
 */
export async function startApp(deps: AppDeps): Promise<Running> {
  const running: Running[] = [];
  declareFile(deps.config.events.file);
  try {
    const { health, registry } = await startParts(deps, running);
    health.started();
    deps.siblings?.serving(deps.roles.includes('deliver') ? deps.config.delivery.workerId : undefined, {
      metrics: () => registry.getMetricsAsJSON(),
      readiness: health.readiness,
    });
    const stop = (): Promise<void> => {
      health.stopping();
      return stopAll(running, deps.log);
    };
    return { stop };
  } catch (error) {
    await stopAll(running, deps.log);
    throw error;
  }
}
