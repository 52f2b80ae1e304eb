/** What runs in a process, in the order of starting and stopping. Which room gets what from which stands in rooms.ts. */
import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { createAccountPurges } from '#accounts/housekeeping/purges.ts';
import { keepPartitions } from '#database/partition-keeper.ts';
import { isWithoutPartition } from '#database/partitions.ts';
import type { Sql } from '#database/pool.ts';
import { isUnavailable } from '#database/unavailable.ts';
import { createSealer } from '#database/seal.ts';
import { createAnnouncer } from '#delivery/announce.ts';
import { blankAnswers } from '#delivery/erasure/queries.ts';
import { createGuard } from '#delivery/exchange/guard.ts';
import { createResolver } from '#delivery/exchange/resolver.ts';
import type { Worker } from '#delivery/worker.ts';
import { createErasurePurges } from '#events/erasure/purges.ts';
import { createMint } from '#events/batch/mint.ts';
import { createEventPurges } from '#events/housekeeping/purges.ts';
import { createIdempotencyPurge } from '#http/idempotency/once.ts';
import { createRateLimit } from '#http/rate-limit.ts';
import { rootOf } from '#http/root.ts';
import { createServer } from '#http/server.ts';
import type { Services } from '#http/services.ts';
import type { Clock } from '#kernel/clock.ts';
import { stopAll, within, type Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { createMailer } from '#mail/mailer.ts';
import { createBearer } from '#oauth/bearer.ts';
import { createOAuthPurges } from '#oauth/housekeeping/purges.ts';
import { createStorePurges } from '#stores/erasure/purges.ts';
import type { Config } from './config.ts';
import { createWorker, tellOfDays } from './delivering.ts';
import { startHousekeeping } from './housekeeping.ts';
import { openObserving } from './observing.ts';
import { holdersOf, openPublishing } from './publishing.ts';
import { createRooms } from './rooms.ts';
import { routesOf } from './routes.ts';

export type Role = 'serve' | 'deliver';

export type AppDeps = {
  config: Config;
  sql: Sql;
  /** To PostgreSQL itself, for what needs a session: locks that outlive a transaction, words from other processes. */
  direct: Sql;
  /** 32 bytes: what secrets at rest are sealed with, and what other keys are derived from. */
  secretKey: Buffer;
  clock: Clock;
  random: () => number;
  log: Log;
  roles: readonly Role[];
};

const keepHouse = (
  { config, sql, direct, clock, log }: AppDeps,
  registry: Registry,
  worker: Worker | undefined,
): Running =>
  startHousekeeping({
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
      ...createStorePurges({ sql }),
      ...createAccountPurges({ sql, auditKeptDays: config.housekeeping.auditKeptDays }),
    ],
  });

/** Answers requests from here on. */
const openServer = async (
  { config, clock, log }: AppDeps,
  rooms: Parameters<typeof routesOf>[0],
  { bearer, ...parts }: Pick<Services, 'pages' | 'once' | 'metrics'> & { bearer: Services['authenticate'] },
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
    isUnavailable: (error) => isUnavailable(error) || isWithoutPartition(error),
  };
  const server = createServer(services, routesOf(rooms, config));
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
  const sealer = createSealer(deps.secretKey);
  const guard = createGuard(config.delivery.allowedNetworks, createResolver({ clock, settings: config.delivery }));
  const announcer = createAnnouncer({ sql, log });
  // One for all that this process makes: ids rise in the order in which things happen here.
  const mint = createMint(() => clock.monotonicMs());
  const mailer = config.mail === undefined ? undefined : createMailer({ ...config.mail, log });
  const observing = await openObserving(deps);
  const { registry, health } = observing;
  const partitions = await keepPartitions({ direct, clock, log, retentionDays: config.database.retentionDays });
  const worker = deps.roles.includes('deliver') ? createWorker(deps, sealer, guard, observing.engine, mint) : undefined;
  if (worker !== undefined) observing.check(() => (worker.isSure() ? undefined : 'lease'));
  await worker?.start();
  const days = worker === undefined ? undefined : tellOfDays(deps, worker, mint);
  const { exchangesMs, recordsMs, handBackMs, othersMs } = stopping;
  const shares = [
    [othersMs, observing],
    [othersMs, partitions],
    [othersMs, announcer],
    [stopping.mailsMs, mailer],
    [exchangesMs + recordsMs + handBackMs, worker],
    [othersMs, days],
  ] as const;
  const running = shares.flatMap(([limitMs, part]) => (part === undefined ? [] : [within(limitMs, part)]));
  if (deps.roles.includes('serve')) {
    running.push(within(othersMs, keepHouse(deps, registry, worker)));
    const { secretKey } = deps;
    const bearer = createBearer({ sql });
    const publishing = openPublishing({ config, sql, log, worker, announcer, mint, metrics: observing.publishing });
    const { rooms, pages, once } = createRooms({
      publishing,
      config,
      sql,
      secretKey,
      log,
      health,
      bearer,
      mailer,
      sealer,
      guard,
      worker,
      announcer,
    });
    const server = await openServer(deps, rooms, { bearer, pages, once, metrics: observing.requests });
    running.push({ stop: () => closeServer(server, stopping.requestsMs) });
  }
  health.started();
  const stop = (): Promise<void> => {
    health.stopping();
    return stopAll(running, log);
  };
  return { stop };
};
