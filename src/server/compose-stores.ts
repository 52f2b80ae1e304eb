/**
 * The request handlers about data of stores. Each database has its own; a request goes to those of the database that has the store or
 * the webhook in its address.
 */
import { createCommerceOperations } from '#catalog/resource-operations.ts';
import { createLive } from '#dashboard/live.ts';
import type { Sql } from '#db/pool.ts';
import { createSearch } from '#db/search.ts';
import { isMoving, isUnavailable } from '#db/unavailable.ts';
import { createErasure } from '#events/erase/erasure.ts';
import { createRefeed } from '#events/replay/refeed.ts';
import { createEventOperations } from '#events/operations.ts';
import { createSampleEvents } from '#events/sample-events.ts';
import type { Pages } from '#http/caller.ts';
import type { Operation } from '#http/operation.ts';
import type { Params, RawHandler } from '#http/route.ts';
import { Problem } from '#core/problem.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import { formatShards, HOME, shardsOf } from '#shards/map.ts';
import { createWebhookOperations } from '#webhooks/webhook-operations.ts';
import { createStoreCharts } from '#webhooks/health/health-operations.ts';
import { createEventStatuses, createStoreStatuses } from '#webhooks/history/history-operations.ts';
import { createRecoveries } from '#webhooks/recovery/recovery-operations.ts';
import type { Bearer } from '#identity/oauth/bearer.ts';
import { shardOfAddress, type Databases } from './databases.ts';
import type { Handlers } from './routes.ts';
import type { Serving, StoreDatabase } from './store-database.ts';

type Deps = { bearer: Bearer; throttle: Throttle; pages: Pages };

type StoreHandlers = Pick<
  Handlers,
  | 'webhooks'
  | 'events'
  | 'sampleEvents'
  | 'recoveries'
  | 'eventStatuses'
  | 'storeStatuses'
  | 'live'
  | 'refeed'
  | 'erasure'
  | 'commerce'
>;

/** Returns what serves requests. Throws in a process that only delivers, which has no server. */
export function servingOf({ serving }: StoreDatabase): Serving {
  if (serving === undefined) throw new TypeError('A process that only delivers got a request');
  return serving;
}

function createHandlers(
  { bearer, throttle, pages }: Deps,
  database: StoreDatabase,
): StoreHandlers & { chartsOf: ChartsOf } {
  const { runtime, notices } = database;
  const { publishing, pullStreams, sending, changes, liveStreams, caches } = servingOf(database);
  const { accounts, changelog, publish, resent, refeeding } = publishing;
  const search = createSearch(runtime.sql, runtime.config.database);
  const searching = { ...runtime, search };
  return {
    webhooks: createWebhookOperations({
      ...searching,
      ...sending,
      ...changes,
      accounts,
      changelog,
      pull: pullStreams,
      authenticate: bearer,
      onKeyReplaced: (webhook) => notices?.notify({ ...webhook, about: 'key' }),
      onResent: resent,
    }),
    events: createEventOperations({ ...searching, publish }),
    sampleEvents: createSampleEvents({ ...runtime, publish, throttle }),
    recoveries: createRecoveries(runtime),
    eventStatuses: createEventStatuses(searching),
    storeStatuses: createStoreStatuses(searching),
    live: createLive(liveStreams, { visitorOf: pages.visitorOf, clock: runtime.clock }),
    refeed: createRefeed(refeeding),
    erasure: createErasure({ ...runtime, caches }),
    commerce: createCommerceOperations(searching),
    chartsOf: createStoreCharts(runtime),
  };
}

type ChartsOf = ReturnType<typeof createStoreCharts>;
type OfDatabase = ReturnType<typeof createHandlers>;
type Use<T> = (handlers: OfDatabase, sql: Sql) => T | Promise<T>;

/** Throws a 503 that names the shards if the database is not available; `error` otherwise. */
function refuse(databases: Databases, { id }: StoreDatabase, error: unknown): never {
  if (isMoving(error)) {
    const message = 'This store is being moved to another database; try again in a second';
    throw new Problem(503, { code: 'unavailable', message }, { headers: { 'Retry-After': '1' } });
  }
  if (id === HOME || !isUnavailable(error)) throw error;
  const shards = formatShards(shardsOf(databases.map, id));
  const message = `The database of this store (number ${id}, with the shards ${shards}) is not available; stores in other databases are not affected. Try again shortly`;
  throw new Problem(503, { code: 'unavailable', message }, { headers: { 'Retry-After': '5' }, cause: error });
}

/** Returns the handlers of the database in which the address of each request is; with one database these are called directly. */
export function openDatabaseHandlers(databases: Databases, deps: Deps) {
  const created = new Map<StoreDatabase, OfDatabase>();
  const handlersOf = (database: StoreDatabase): OfDatabase => {
    const known = created.get(database) ?? createHandlers(deps, database);
    created.set(database, known);
    return known;
  };
  const run = async <T>(params: Params, use: Use<T>): Promise<T> => {
    const database = databases.ofAddress(params);
    try {
      return await use(handlersOf(database), database.sql);
    } catch (error) {
      return refuse(databases, database, error);
    }
  };
  const inHome = handlersOf(databases.home);
  const at = <T>(params: Params, use: Use<T>): T | Promise<T> =>
    databases.isDivided ? run(params, use) : use(inHome, databases.home.sql);
  const operation = (select: (handlers: OfDatabase) => Operation): Operation => {
    const { admit, review, storesResponse, ...described } = select(inHome);
    return {
      ...described,
      storesResponse,
      admit: admit && (async (request) => at(request.params, async (of) => select(of).admit?.(request))),
      review: review && (async (request) => at(request.params, async (of) => select(of).review?.(request) ?? [])),
      handle: async (request, execution) =>
        at(request.params, async (of, sql) => {
          const inStore = storesResponse ? execution.in(sql, shardOfAddress(request.params)) : execution;
          return select(of).handle(request, inStore);
        }),
    };
  };
  const operations = <Name extends string>(select: (handlers: OfDatabase) => Record<Name, Operation>) => {
    const names = Object.keys(select(inHome)) as Name[];
    return Object.fromEntries(names.map((name) => [name, operation((of) => select(of)[name])])) as Record<
      Name,
      Operation
    >;
  };
  const live: RawHandler = async (request) => at(request.params, (of) => of.live(request));
  const handlers: StoreHandlers = {
    webhooks: operations((of) => of.webhooks),
    events: operations((of) => of.events),
    sampleEvents: operation((of) => of.sampleEvents),
    recoveries: operations((of) => of.recoveries),
    eventStatuses: operation((of) => of.eventStatuses),
    storeStatuses: operation((of) => of.storeStatuses),
    live,
    refeed: operation((of) => of.refeed),
    erasure: operation((of) => of.erasure),
    commerce: operations((of) => of.commerce),
  };
  const chartsOf: ChartsOf = (store, now) => handlersOf(databases.of(store.shard)).chartsOf(store, now);
  return { handlers, chartsOf };
}
