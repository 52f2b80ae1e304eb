/** The composition root: which room gets what from which. */
import { createHmac } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { createPasswords } from '#accounts/passwords.ts';
import { createSessions } from '#accounts/sessions.ts';
import { createSignIn } from '#accounts/sign-in.ts';
import { createCommerceOperations } from '#commerce/item.ts';
import { maintainPartitions } from '#database/partitions.ts';
import { isUnavailable, type Sql } from '#database/pool.ts';
import { createSealer } from '#database/seal.ts';
import { createAnnouncer } from '#delivery/announce.ts';
import { createGuard } from '#delivery/guard.ts';
import { Worker, type HandedOver } from '#delivery/worker.ts';
import { createEventOperations } from '#events/operations.ts';
import { createPublisher, type Committed } from '#events/publish.ts';
import { createServer } from '#http/server.ts';
import type { Clock } from '#kernel/clock.ts';
import { stopAll, type Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { createAuthorize } from '#oauth/authorize.ts';
import { createBearer } from '#oauth/bearer.ts';
import { createTokenEndpoint } from '#oauth/token.ts';
import { createHome } from '#stores/home.ts';
import { createStoreOperations } from '#stores/store.ts';
import { createWebhookOperations } from '#webhooks/collection.ts';
import type { Config } from './config.ts';
import { routesOf } from './routes.ts';

export const VERSION = '0.1.0';

export type Role = 'serve' | 'deliver';

export type AppDeps = {
  config: Config;
  sql: Sql;
  /** 32 bytes: what secrets at rest are sealed with, and what other keys are derived from. */
  secretKey: Buffer;
  clock: Clock;
  random: () => number;
  log: Log;
  roles: readonly Role[];
};

const PARTITION_CHECK_MS = 3_600_000;
const PARTITION_DAYS_AHEAD = 3;

const handedOver = ({ shard, deliveryId, storeId, webhookId, epoch, event }: Committed): HandedOver => ({
  shard,
  delivery: { id: deliveryId, storeId, webhookId, epoch, eventId: event.id, attempts: 0 },
  event: { ...event, storeId },
});

const keepPartitions = async ({ config, sql, clock, log }: AppDeps): Promise<Running> => {
  const { retentionDays } = config.database;
  const run = () => maintainPartitions(sql, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  await run();
  const timer = setInterval(() => {
    run().catch((error: unknown) => log.error({ err: error }, 'partitions could not be kept up; it is tried again'));
  }, PARTITION_CHECK_MS);
  return { stop: async () => clearInterval(timer) };
};

const createWorker = (
  { config, sql, clock, random, log }: AppDeps,
  sealer: ReturnType<typeof createSealer>,
  guard: ReturnType<typeof createGuard>,
) =>
  new Worker({
    sql,
    clock,
    random,
    log,
    sealer,
    guard,
    settings: {
      ...config.delivery,
      headerPrefix: config.naming.webhookHeaderPrefix,
      relationPrefix: config.naming.relationPrefix,
      userAgent: `Halcyon/${VERSION}`,
    },
  });

const createRooms = (
  { config, sql, secretKey, log }: AppDeps,
  delivery: {
    sealer: ReturnType<typeof createSealer>;
    guard: ReturnType<typeof createGuard>;
    worker: Worker | undefined;
    announcer: ReturnType<typeof createAnnouncer>;
  },
) => {
  const { baseUrl, authUrl, naming, oauth } = config;
  const { sealer, guard, worker, announcer } = delivery;
  const passwords = createPasswords({ hashesAtOnce: oauth.passwordHashesAtOnce });
  const sessions = createSessions({ sql, authUrl, lifetimeDays: oauth.sessionLifetimeDays });
  const publish = createPublisher({
    sql,
    baseUrl,
    batchRows: config.events.batchRows,
    batchBytes: config.events.batchBytes,
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
  return {
    home: createHome({ baseUrl, authUrl }),
    stores: createStoreOperations({ sql, baseUrl }),
    webhooks: createWebhookOperations({
      sql,
      sealer,
      baseUrl,
      versions: config.webhooks.versions,
      webhooksPerStore: config.webhooks.webhooksPerStore,
      headerPrefix: naming.webhookHeaderPrefix,
      judgeUrl: guard.judgeUrl,
      onChanged: async ({ shard, id }) => {
        worker?.webhookChanged({ shard, webhookId: id });
        await announcer.webhook({ shard, webhookId: id });
      },
    }),
    events: createEventOperations({
      sql,
      publish,
      baseUrl,
      relationPrefix: naming.relationPrefix,
      limits: config.events,
      bodyLimitBytes: config.http.eventsBodyLimitBytes,
    }),
    commerce: createCommerceOperations({ sql, relationPrefix: naming.relationPrefix }),
    signIn: createSignIn({ sql, passwords, sessions, authUrl }),
    authorize: createAuthorize({
      sql,
      sessions,
      issuer: authUrl,
      codeLifetimeSeconds: oauth.codeLifetimeSeconds,
      nonceKey: createHmac('sha256', secretKey).update('authorize nonce').digest(),
    }),
    token: createTokenEndpoint({
      sql,
      accessTokenLifetimeSeconds: oauth.accessTokenLifetimeSeconds,
      refreshTokenIdleDays: oauth.refreshTokenIdleDays,
    }),
  };
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
  const { config, sql, clock, log } = deps;
  const sealer = createSealer(deps.secretKey);
  const guard = createGuard(config.delivery.allowedNetworks);
  const announcer = createAnnouncer({ sql, log });
  const partitions = await keepPartitions(deps);
  const worker = deps.roles.includes('deliver') ? createWorker(deps, sealer, guard) : undefined;
  await worker?.start();
  const running: Running[] = [partitions, announcer, ...(worker === undefined ? [] : [worker])];
  if (deps.roles.includes('serve')) {
    const rooms = createRooms(deps, { sealer, guard, worker, announcer });
    const services = {
      settings: {
        ...config.http,
        versionHeader: config.naming.versionHeader,
        authOrigin: new URL(config.authUrl).origin,
      },
      naming: { baseUrl: config.baseUrl, relationPrefix: config.naming.relationPrefix },
      clock,
      log,
      authenticate: createBearer({ sql }),
      isUnavailable,
    };
    const server = createServer(services, routesOf(rooms, config));
    await server.listen({ host: config.host, port: config.port });
    running.push({ stop: () => closeServer(server, config.http.stopTimeoutMs) });
  }
  return { stop: () => stopAll(running, log) };
};
