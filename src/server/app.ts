/** What runs in a process, in the order of starting and stopping. Which room gets what from which stands in handlers.ts. */
import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { createAccountPurges } from '#identity/accounts/purges.ts';
import { keepPartitions } from '#db/partition-keeper.ts';
import type { Sql } from '#db/pool.ts';
import { whyUnavailable } from '#db/why-unavailable.ts';
import { createSealer } from '#db/seal.ts';
import { createAnnouncer } from '#delivery/announce.ts';
import { blankAnswers } from '#delivery/record/erase-sql.ts';
import { createStatePurge } from '#delivery/record/purge.ts';
import { createTallyPurge } from '#delivery/stats/purge.ts';
import type { Worker } from '#delivery/worker.ts';
import { createErasurePurges } from '#events/erase/purges.ts';
import { createIdAllocator } from '#events/publish/id-allocator.ts';
import { createEventPurges } from '#events/purges.ts';
import { createRecoveryPurges } from '#events/replay/purges.ts';
import { createIdempotencyPurge } from '#http/idempotency/idempotency.ts';
import { createRateLimit } from '#http/rate-limit.ts';
import { rootOf } from '#http/root.ts';
import { createServer } from '#http/server.ts';
import type { Services } from '#http/services.ts';
import type { Clock } from '#core/clock.ts';
import type { Keys } from '#core/keys.ts';
import { stopAll, within, type Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { createMailer } from '#mail/mailer.ts';
import { createBearer } from '#identity/oauth/bearer.ts';
import { createOAuthPurges } from '#identity/oauth/purges.ts';
import { createStorePurges } from '#stores/purges.ts';
import { createForsakenPurge } from '#webhooks/pull/unattended.ts';
import { createWebhookPurges } from '#webhooks/purges.ts';
import type { Config } from '#config/config.ts';
import { createWorker, openByHand, openGuard, openNotices, recoverEvents, tellOfDays } from './delivery.ts';
import { startRetention } from './retention.ts';
import { openObserving } from './telemetry.ts';
import { announceChanges, holdersOf, openInternalEvents, openPublishing, type Publishing } from './publishing.ts';
import { compose } from './compose.ts';
import { routesOf } from './routes.ts';

export type Role = 'serve' | 'deliver';

export type AppDeps = {
  config: Config;
  sql: Sql;
  /** To PostgreSQL itself, for what needs a session: locks that outlive a transaction, words from other processes. */
  direct: Sql;
  /** 32 bytes each: what secrets at rest are sealed with, and what other keys are derived from. */
  secretKeys: Keys;
  clock: Clock;
  random: () => number;
  log: Log;
  roles: readonly Role[];
};

const keepRetention = (
  { config, sql, direct, clock, log }: AppDeps,
  registry: Registry,
  worker: Worker | undefined,
  { changelog }: Pick<Publishing, 'changelog'>,
): Running =>
  startRetention({
    direct,
    clock,
    log,
    registry,
    settings: config.housekeeping,
    purges: [
      ...createOAuthPurges({ sql, kept: config.housekeeping }),
      createIdempotencyPurge({ sql }),
      ...createErasurePurges({ sql, log, holders: holdersOf(worker), blankAnswers }),
      // What erased stores have left, and last their names.
      ...createEventPurges({ sql }),
      ...createRecoveryPurges({ sql, retentionDays: config.database.retentionDays }),
      ...createWebhookPurges({ sql }),
      createForsakenPurge({ sql, changelog, announce: announceChanges, ...config.held }),
      createStatePurge({ sql }),
      createTallyPurge({ sql, keptDays: config.housekeeping.webhookHoursKeptDays }),
      ...createStorePurges({ sql }),
      ...createAccountPurges({ sql, auditKeptDays: config.housekeeping.auditKeptDays }),
    ],
  });

/** Answers requests from here on. */
const openServer = async (
  { config, clock, log }: AppDeps,
  handlers: Parameters<typeof routesOf>[0],
  { bearer, ...parts }: Pick<Services, 'pages' | 'idempotency' | 'metrics'> & { bearer: Services['authenticate'] },
): Promise<FastifyInstance> => {
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
    rateLimit: createRateLimit(config.rate, clock),
    whyUnavailable,
  };
  const server = createServer(services, routesOf(handlers, config));
  await server.listen({ host: config.host, port: config.port });
  return server;
};

/** Lets requests that are under way finish, but not for longer than the time-out. */
const closeServer = async (server: FastifyInstance, timeoutMs: number): Promise<void> => {
  const late = setTimeout(() => server.server.closeAllConnections(), timeoutMs);
  await server.close();
  clearTimeout(late);
};

/**
 * Starts the roles over a migrated database: delivery first, so that nothing accepted waits for it. `stop` ends them in
 * the opposite order: take nothing new, finish or hand back what is under way.
 */
export const startApp = async (deps: AppDeps): Promise<Running> => {
  const { config, sql, direct, clock, log } = deps;
  const { stopping } = config;
  const sealer = createSealer(...deps.secretKeys);
  const guard = openGuard(deps);
  const announcer = createAnnouncer({ sql, log });
  // One for all that this process makes: ids rise in the order in which things happen here.
  const allocateIds = createIdAllocator(() => clock.monotonicMs());
  const mailer = config.mail === undefined ? undefined : createMailer({ ...config.mail, log });
  const observing = await openObserving(deps);
  const { registry, health } = observing;
  const partitions = await keepPartitions({ direct, clock, log, retentionDays: config.database.retentionDays });
  const notices = openNotices(deps, mailer);
  const { engine } = observing;
  const worker = deps.roles.includes('deliver')
    ? createWorker(deps, sealer, guard, engine, allocateIds, notices)
    : undefined;
  if (worker !== undefined) observing.check(() => (worker.isSure() ? undefined : 'lease'));
  await worker?.start();
  const days = worker === undefined ? undefined : tellOfDays(deps, worker, allocateIds);
  const recoveries = worker === undefined ? undefined : recoverEvents(deps, worker, observing.recoveries);
  const { exchangesMs, recordsMs, handBackMs, othersMs } = stopping;
  const shares = [
    [othersMs, observing],
    [othersMs, partitions],
    [othersMs, announcer],
    [stopping.mailsMs, mailer],
    [othersMs, notices],
    [exchangesMs + recordsMs + handBackMs, worker],
    [othersMs, days],
    [othersMs, recoveries],
  ] as const;
  const running = shares.flatMap(([limitMs, part]) => (part === undefined ? [] : [within(limitMs, part)]));
  if (deps.roles.includes('serve')) {
    running.push(within(othersMs, keepRetention(deps, registry, worker, openInternalEvents(config, allocateIds))));
    const { secretKeys } = deps;
    const bearer = createBearer({ sql });
    const { held, sending, onHeld, trials } = openByHand(deps, sealer, guard, allocateIds);
    const { publishing: metrics } = observing;
    const publishing = openPublishing({ config, sql, log, worker, announcer, allocateIds, metrics, onHeld });
    const { handlers, pages, idempotency } = compose({
      publishing,
      held,
      sending,
      config,
      sql,
      secretKeys,
      log,
      health,
      bearer,
      mailer,
      sealer,
      guard,
      worker,
    });
    const server = await openServer(deps, handlers, { bearer, pages, idempotency, metrics: observing.requests });
    running.push({ stop: () => closeServer(server, stopping.requestsMs) });
    // Before the server waits for who waits for them.
    running.push(within(othersMs, trials), within(othersMs, held));
  }
  health.started();
  const stop = (): Promise<void> => {
    health.stopping();
    return stopAll(running, log);
  };
  return { stop };
};
