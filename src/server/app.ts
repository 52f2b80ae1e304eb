/** Starts and stops the parts of a process. compose.ts wires the request handlers. */
import { platform } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Sql } from '#db/pool.ts';
import { whyUnavailable } from '#db/unavailable.ts';
import { createSealer } from '#db/seal.ts';
import { declareFile } from '#catalog/own/events-file.ts';
import { declareMappings } from '#catalog/own/mapping-file.ts';
import { createRateLimit, type TakenChannel } from '#http/caller.ts';
import { rootOf } from '#http/root.ts';
import { createServer } from '#http/server.ts';
import type { Services } from '#http/services.ts';
import type { Clock } from '#core/clock.ts';
import { deriveKeys, type Keys } from '#core/keys.ts';
import { shardOf } from '#core/ids.ts';
import { stopAll, within, type Running, type Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { flushSpans } from '#core/tracing.ts';
import { createMailer } from '#mail/mailer.ts';
import type { PasswordCost } from '#identity/accounts/users.ts';
import { createBearer } from '#identity/oauth/oauth-tokens.ts';
import type { Config } from '#config/config.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { openAddress, readMap } from '#shards/map-sql.ts';
import { HOME, type MapDatabase } from '#shards/map.ts';
import { FLUSH_MS, Outbox, observeOutbox } from '#shards/outbox.ts';
import { startOperatorEvents } from '#webhooks/operator/operator-events.ts';
import { openGuard, openStoreDatabase } from './store-database.ts';
import { Databases } from './databases.ts';
import { openObserving, type Observing } from './telemetry.ts';
import { compose } from './compose.ts';
import { routesOf } from './routes.ts';
import type { Siblings } from './supervisor.ts';

export type Role = 'serve' | 'deliver';

/** `prepare`: called before the database is used, and again after it was not available. */
export type StorePools = { sql: Sql; direct: Sql; prepare: () => Promise<void>; close: () => Promise<void> };

/** Handles a request in this process, without a connection. The path includes that of the base URL. */
export type Send = (
  path: string,
  options?: { method?: 'GET' | 'POST'; headers?: Readonly<Record<string, string>>; body?: string | URLSearchParams },
) => Promise<{ status: number; text: string }>;

export type AppDeps = {
  config: Config;
  sql: Sql;
  /** Opens the pools of another database with stores. `home`: the identity of the home database. */
  openPools: (database: { name: string; identity: string; url: string; home: string }) => StorePools;
  /** Direct connection to PostgreSQL for session features: locks that outlive a transaction, LISTEN. */
  direct: Sql;
  /** 32 bytes each: they seal secrets at rest and derive other keys. */
  secretKeys: Keys;
  clock: Clock;
  pace: Pace;
  random: () => number;
  passwordCost: PasswordCost;
  /** How long a response waits for its changes in other databases, by default two seconds. */
  flushMs?: number;
  log: Log;
  roles: readonly Role[];
  /** The connection to the supervisor, if there is one. */
  siblings?: Siblings | undefined;
  /** Called when all parts run, before the port is opened; if it throws, the process does not start. */
  prepare?: ((send: Send) => Promise<void>) | undefined;
  /** Opens no port: only `prepare` sends requests. */
  isPrivate?: true;
};

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
  parts: Omit<Services, 'settings' | 'naming' | 'clock' | 'log' | 'rateLimit' | 'whyUnavailable'>,
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
    ...parts,
    rateLimit: createRateLimit(config.rate, clock, siblings && takenChannel(siblings)),
    whyUnavailable,
  };
  return createServer(services, routesOf(handlers, config));
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

const sendTo =
  (server: FastifyInstance): Send =>
  async (path, { method = 'GET', headers, body } = {}) => {
    const ofBody = body instanceof URLSearchParams ? FORM : {};
    const payload = body === undefined ? {} : { payload: body.toString() };
    const response = await server.inject({ method, url: path, headers: { ...ofBody, ...headers }, ...payload });
    return { status: response.statusCode, text: response.body };
  };

/** Waits for running requests, at most for the time limit. */
async function closeServer(server: FastifyInstance, timeoutMs: number): Promise<void> {
  using _late = setTimeout(() => server.server.closeAllConnections(), timeoutMs);
  await server.close();
}

/** Opens the databases of the map. With a map the metrics of each have a label, also those of the home database. */
async function openDatabases(
  deps: AppDeps,
  runtime: Runtime,
  { protect, observing }: { protect: (server: Sql) => void; observing: Observing },
): Promise<{ databases: Databases; outbox: Outbox }> {
  const { siblings } = deps;
  const { sql: home, direct, clock, log, sealer } = runtime;
  const map = await readMap(home);
  const isDivided = map.version > 0;
  const ofHome = map.databases.find(({ id }) => id === HOME)?.identity ?? '';
  const poolsOf = ({ name, identity, ...database }: MapDatabase): StorePools => {
    const url = openAddress(sealer, database);
    if (url === undefined) return { sql: home, direct, prepare: async () => {}, close: async () => {} };
    const pools = deps.openPools({ name, identity, url, home: ofHome });
    protect(pools.sql);
    protect(pools.direct);
    return pools;
  };
  const outbox = new Outbox({
    home,
    clock,
    log,
    hasOthers: () => databases.isDivided,
    targetOf: (id) => databases.find(id),
    flushMs: deps.flushMs ?? FLUSH_MS,
  });
  const databases: Databases = new Databases(map, {
    home,
    log,
    pace: runtime.pace,
    open: (database, mapped) => {
      const { id, name } = database;
      const { sql, direct: directSql, prepare, close } = poolsOf(database);
      return openStoreDatabase({
        id,
        runtime: { ...runtime, sql, direct: directSql },
        prepare,
        close,
        roles: deps.roles,
        home,
        siblings: id === HOME ? siblings : siblings?.about(id),
        registry: observing.registryOf(isDivided || id !== HOME ? name : undefined),
        databases: mapped,
        outbox,
      });
    },
    onLeft: observing.forget,
  });
  observeOutbox(observing.registryOf(undefined), { home, clock, map: () => databases.map });
  return { databases, outbox };
}

/** Starts the parts in order and adds each to `running` before the next one, so that they can be stopped if one fails. */
async function startParts(deps: AppDeps, running: Running[]): Promise<Observing> {
  const { sql, direct, clock, pace, random, log, secretKeys, passwordCost, siblings } = deps;
  const { secretKeys: _, mail, ...config } = deps.config;
  const { exchangesMs, recordsMs, handBackMs, othersMs, mailsMs, requestsMs } = config.stopping;
  const keep = <Part extends Running | undefined>(part: Part, limitMs = othersMs): Part => {
    if (part !== undefined) running.push(within(limitMs, part));
    return part;
  };
  const sealer = createSealer(...secretKeys);
  const guard = openGuard(deps);
  keep({ stop: flushSpans });
  const observing = keep(await openObserving(deps));
  const mailer = keep(mail === undefined ? undefined : createMailer({ ...mail, log }), mailsMs);
  const derive = (purpose: string): Keys => deriveKeys(secretKeys, purpose);
  const runtime: Runtime = { config, clock, pace, random, log, sql, direct, sealer, mailer, guard, derive };
  const { databases, outbox } = await openDatabases(deps, runtime, { protect: guard.protect, observing });
  keep(databases, exchangesMs + recordsMs + handBackMs + othersMs);
  await databases.start();
  const { worker } = databases.home;
  if (worker !== undefined) observing.check(() => (worker.isUsable() ? undefined : 'lease'));
  outbox.start();
  keep(outbox);
  const { platformStore } = config.stores;
  if (platformStore !== undefined) {
    const target = () => databases.of(shardOf(platformStore));
    keep(startOperatorEvents({ platformStore, databases: () => databases.all(), target, clock, pace, log }));
  }
  if (deps.roles.includes('serve')) {
    const bearer = createBearer(runtime);
    const { health } = observing;
    const { handlers, ...services } = compose(runtime, { databases, outbox, health, passwordCost, bearer });
    const server = openServer(deps, handlers, {
      ...services,
      authenticate: bearer,
      beforeRequest: pace.work,
      isStopping: health.isStopping,
      watchRequests: observing.watchRequests,
    });
    running.push({ stop: () => closeServer(server, requestsMs) });
    // Streams must end before the server waits for their connections.
    running.push({ stop: () => databases.stopStreams() });
    await deps.prepare?.(sendTo(server));
    if (deps.isPrivate !== true)
      await server.listen({ host: config.host, port: config.port, ...(siblings && SHARED_PORT) });
  }
  return observing;
}

/** `retire`: the process becomes unready, and serves on for as long as load balancers take to notice; before a stop that is not urgent. */
export type App = Running & { retire: () => Promise<void> };

/**
 * Starts the roles over a migrated database: delivery first, so that accepted events do not wait. `stop` stops them in
 * reverse order: it accepts nothing new, then finishes or hands back running work. If one of them cannot start, such as
 * the server whose port is taken, the others are stopped before the error is thrown.
 */
export async function startApp(deps: AppDeps): Promise<App> {
  const running: Running[] = [];
  declareFile(deps.config.events.file);
  declareMappings(deps.config.events.mapping);
  try {
    const { health, metrics } = await startParts(deps, running);
    health.started();
    deps.siblings?.serving(deps.roles.includes('deliver') ? deps.config.delivery.workerId : undefined, {
      metrics,
      readiness: health.readiness,
    });
    return {
      retire: async () => {
        health.stopping();
        if (deps.roles.includes('serve')) await delay(deps.config.stopping.delayMs, undefined, { ref: false });
      },
      stop: async () => {
        health.stopping();
        await stopAll(running, deps.log);
      },
    };
  } catch (error) {
    await stopAll(running, deps.log);
    throw error;
  }
}
