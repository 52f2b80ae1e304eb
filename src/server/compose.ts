/**
 * The composition root of the request handlers: constructs the parts in the order in which they depend on each other. Each database has its
 * own handlers of data of stores; a request goes to those of the database that has the store or the webhook in its address.
 */
import { originOf } from '#identity/accounts/audit.ts';
import { findFactors } from '#identity/accounts/factors/factors-sql.ts';
import { hasSecondFactor } from '#identity/accounts/factors/second-factor.ts';
import { createPeople, createPages } from '#identity/accounts/people.ts';
import { createUserErasure } from '#identity/accounts/user-end.ts';
import { collections } from '#catalog/catalog.ts';
import { createDashboard, createFrontPage } from '#dashboard/dashboard.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { rescheduleSnapshot } from '#events/snapshots.ts';
import type { Pages } from '#http/caller.ts';
import { createAssets } from '#http/assets.ts';
import { createFixedAddresses, createHealthEndpoints } from '#http/fixed-addresses.ts';
import type { Params, RawHandler } from '#http/route.ts';
import { rootOf, mcpAddressOf } from '#http/root.ts';
import { createIdempotency } from '#http/idempotency.ts';
import { shardOf } from '#core/ids.ts';
import { listTestable, type Testable } from '#webhooks/webhook-sql.ts';
import type { Bearer } from '#identity/oauth/oauth-tokens.ts';
import { memberAccessOf, revokeGrantsForStore } from '#identity/oauth/connected/connected.ts';
import { createInvitationMails, createInvitationPages } from '#identity/invitations/invitations.ts';
import { createReceivedInvitations } from '#identity/invitations/invitation-pages.ts';
import { findUserOfIdentity } from '#identity/accounts/accounts-sql.ts';
import { createMetadata, resourceMetadata, serverMetadata } from '#identity/oauth/metadata.ts';
import { setBrand } from '#hypermedia/shell.ts';
import { createMcp } from '#mcp/mcp-endpoint.ts';
import { createHome, storeTabs, membershipsOf } from '#stores/home.ts';
import { createInvitationOperations, createInviting } from '#stores/invitations/invitation-operations.ts';
import { createAwaitedMembers } from '#stores/members/awaited-member-operations.ts';
import { createMemberOperations } from '#stores/members/member-operations.ts';
import type { Eraser } from '#stores/store.ts';
import { createStoreOperations } from '#stores/store-operations.ts';
import type { Outbox } from '#shards/outbox.ts';
import { createSandbox } from '#stores/sandbox.ts';
import { eraseDataOf, openAccounts, openOAuth, type ProcessParts } from './compose-identity.ts';
import { openReference } from './compose-reference.ts';
import { shardOfAddress, type Databases } from './databases.ts';
import { announceSent } from './publishing.ts';
import { routesOf } from './routes.ts';
import type { Reference } from '#reference/reference.ts';
import type { Serving, StoreDatabase } from './store-database.ts';
import { VERSION } from './version.ts';
import { createCommerceOperations } from '#catalog/resource-operations.ts';
import { createLive } from '#dashboard/live.ts';
import { createSearchPage } from '#dashboard/store-search.ts';
import type { Sql } from '#db/pool.ts';
import { createSearch } from '#db/search.ts';
import { isMoving, isUnavailable } from '#db/unavailable.ts';
import { customerErased } from '#changelog/changelog.ts';
import { createErasure } from '#events/erase/erasure.ts';
import { createRefeed } from '#events/replay/refeed.ts';
import { createEventOperations } from '#events/operations.ts';
import { createLoad } from '#events/load/load-operation.ts';
import { createSampleEvents } from '#events/sample-events.ts';
import type { Operation } from '#http/operation.ts';
import { temporary } from '#core/problem.ts';
import type { Throttle } from '#identity/accounts/throttle.ts';
import { createPortal } from '#identity/portal/portal.ts';
import { formatShards, HOME, nameIn, shardsOf } from '#shards/map.ts';
import { createConsole } from '#operator/console.ts';
import {
  createDatabaseStatus,
  type ReadStatuses,
  createStoreChanges,
  type ReadStoreChanges,
} from '#operator/console-reads.ts';
import { embeddedFolder } from './telemetry.ts';
import { byMissing, createFailing, type ReadFailing, createStoreCharts } from '#webhooks/health/health-operations.ts';
import { createPublicKeys } from '#webhooks/rotate-key.ts';
import { createWebhookOperations } from '#webhooks/webhook-operations.ts';
import { createEventStatuses, createStoreStatuses } from '#webhooks/history/history-operations.ts';
import { createRecoveries } from '#webhooks/recovery/recovery-operations.ts';

/** The endpoint is a resource of its own for OAuth, because clients compare the address of the metadata with theirs. */
const openMcp = ({ baseUrl, authUrl, naming }: Runtime['config']) => ({
  metadata: createMetadata({ ...resourceMetadata({ baseUrl, authUrl }), resource: mcpAddressOf(baseUrl) }),
  serve: createMcp({ baseUrl, authUrl, version: VERSION, ...naming }),
});

/** Runs before the webhooks are erased: the end of a grant takes its locks in this order. */
const eraseGrants: Eraser = (tx, { storeId }, request) =>
  revokeGrantsForStore(tx, { storeId, origin: originOf(request), now: request.now });

/** Returns what erases the data of a store in other modules; stores do not import webhooks or OAuth. */
function erasersOf({ webhooksOfStore }: StoreDatabase, outbox: Outbox): readonly Eraser[] {
  // A trigger adds the erasure to the outbox.
  const noteErasure: Eraser = async () => outbox.noteEnqueued();
  return [eraseGrants, webhooksOfStore.erase, noteErasure];
}

/** Returns the newest of the webhooks of the stores that can be tested. */
async function listTestableIn(databases: Databases, stores: readonly number[], limit: number): Promise<Testable[]> {
  const byDatabase = [...Map.groupBy(stores, (id) => databases.of(shardOf(id)))];
  const found = await Promise.all(byDatabase.map(([{ sql }, ids]) => listTestable(sql, ids, limit)));
  return found
    .flat()
    .toSorted((a, b) => b.id - a.id)
    .slice(0, limit);
}

/** Returns the function that finds the database of a shard: with one database the home database. */
const sqlsOf =
  (databases: Databases) =>
  (shard: number): Sql =>
    (databases.isDivided ? databases.of(shard) : databases.home).sql;

/** Creates the handlers of all routes but those of the reference, which describes them, and the pages that they need. */
function openHandlers(runtime: Runtime, parts: ProcessParts) {
  const { config, sql } = runtime;
  const { databases, outbox, bearer } = parts;
  const { baseUrl, authUrl, naming } = config;
  const serving = servingOf(databases.home);
  const { publishing } = serving;
  const { webhooksOfStore } = databases.home;
  const { changelog } = publishing;
  const people = createPeople(runtime, parts.passwordCost);
  const pages = createPages(runtime, people, {
    membershipsOf: (userId) => membershipsOf(sql.reads, userId),
    tabsOf: (document, nameOf) => storeTabs(document, { baseUrl, nameOf }),
  });
  const ofStores = openDatabaseHandlers(databases, { home: sql, bearer, throttle: people.throttle, pages });
  const memberEffects = { changelog, memberAccess: memberAccessOf(publishing) };
  const inviting = createInviting(runtime, { changelog, mails: createInvitationMails(runtime, people.throttle) });
  const erasers = erasersOf(databases.home, outbox);
  const erasure = createUserErasure(runtime, { changelog, eraseUserData: eraseDataOf(publishing, erasers) });
  const signInPath = `${rootOf(authUrl)}/sign-in`;
  const frontPage = createFrontPage({ signInPath, versionHeader: naming.versionHeader });
  const handlers = {
    home: createHome(config, (shown) => frontPage({ ...shown, naming: { baseUrl, ...naming } })),
    stores: createStoreOperations(runtime, {
      changelog,
      collections: collections(config.stores.platformStore),
      chartsOf: ofStores.chartsOf,
      hasSecondFactor: async (tx, userId) => hasSecondFactor(await findFactors(tx, userId)),
      onDomainChanged: webhooksOfStore.renew,
      rescheduleSnapshot,
      erasure: { erasers, lockAppsOf: publishing.lockAppsOf },
    }),
    sandbox: createSandbox(runtime, { effects: memberEffects, collections: collections(config.stores.platformStore) }),
    members: createMemberOperations(runtime, {
      effects: memberEffects,
      inviting,
      userOfIdentity: findUserOfIdentity,
    }),
    awaitedMembers: createAwaitedMembers(runtime, { effects: memberEffects, userOfIdentity: findUserOfIdentity }),
    invitations: createInvitationOperations(runtime, { changelog, inviting }),
    receivedInvitations: createReceivedInvitations(runtime, memberEffects),
    invitation: createInvitationPages(runtime, people, { effects: memberEffects, erasure }),
    portal: createPortal(runtime, people, memberEffects),
    ...ofStores.handlers,
    search: createSearchPage(pages, {
      sqlOf: sqlsOf(databases),
      naming: { baseUrl, relationPrefix: naming.relationPrefix },
      authUrl: authUrl.replace(/\/$/, ''),
    }),
    ...openAccounts(runtime, people, { effects: publishing, eachDatabase: databases.each, erasure, memberEffects }),
    ...openOAuth(runtime, people, { serving, parts, memberEffects }),
    metadata: createMetadata(serverMetadata(config)),
    resourceMetadata: createMetadata(resourceMetadata(config)),
    /** Undefined unless the operator has switched the endpoint for agents on. */
    mcp: config.mcp ? openMcp(config) : undefined,
    fixedAddresses: createFixedAddresses(config, config.securityContact),
    assets: createAssets(config.brand.logo),
    console: createConsole(runtime, people, { ...ofStores.console, effects: publishing }),
    health: createHealthEndpoints(parts.health),
  };
  return { handlers, pages };
}

export type Handlers = ReturnType<typeof openHandlers>['handlers'] & { reference: Reference };

/** Returns the handlers of all routes, and what the HTTP layer needs of them. */
export function compose(runtime: Runtime, parts: ProcessParts) {
  const { config, sql, sealer, derive } = runtime;
  const { databases, outbox } = parts;
  const { baseUrl, authUrl } = config;
  const { logo, ...brand } = config.brand;
  setBrand({ ...brand, logoPath: logo && `${rootOf(baseUrl)}/assets/${logo.file}` });
  const { handlers: described, pages } = openHandlers(runtime, parts);
  const reference = openReference(config, {
    testableOf: (ids, limit) => listTestableIn(databases, ids, limit),
    routes: () => routesOf(handlers, config),
  });
  const handlers: Handlers = { ...described, reference };
  const { retentionDays } = config.database;
  const sqlOf = sqlsOf(databases);
  const designedPages = createDashboard({ sqlOf, accounts: sql, root: rootOf(authUrl), retentionDays });
  const idempotency = createIdempotency({ sql, sealer, fingerprintKeys: derive('idempotency fingerprint') });
  const beforeReply = () => (databases.isDivided ? outbox.flush() : undefined);
  return { handlers, pages, designedPages, idempotency, beforeReply };
}

type Deps = { home: Sql; bearer: Bearer; throttle: Throttle; pages: Pages };

/** Returns what serves requests. Throws in a process that only delivers, which has no server. */
function servingOf({ serving }: StoreDatabase): Serving {
  if (serving === undefined) throw new TypeError('A process that only delivers got a request');
  return serving;
}

function createHandlers({ home, bearer, throttle, pages }: Deps, database: StoreDatabase) {
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
    events: createEventOperations({ ...searching, publish, metrics: refeeding.metrics }),
    load: createLoad(runtime),
    sampleEvents: createSampleEvents({ ...runtime, publish, throttle }),
    recoveries: createRecoveries({ ...runtime, ...changes }),
    eventStatuses: createEventStatuses(searching),
    storeStatuses: createStoreStatuses(searching),
    live: createLive(liveStreams, { visitorOf: pages.visitorOf, clock: runtime.clock }),
    publicKeys: createPublicKeys(runtime),
    refeed: createRefeed(refeeding),
    erasure: createErasure({
      ...runtime,
      ...refeeding,
      caches,
      announce: announceSent,
      recordErasure: (tx, key, by, now) => changelog.record(tx, [customerErased(by, key)], now),
    }),
    commerce: createCommerceOperations(searching),
    chartsOf: createStoreCharts(runtime),
    failing: createFailing(search),
    storeChanges: createStoreChanges({ sql: runtime.sql, accounts: home, search }),
    status: createDatabaseStatus(runtime, embeddedFolder(runtime.config, database.id)),
  };
}

type OfDatabase = ReturnType<typeof createHandlers>;
type Use<T> = (handlers: OfDatabase, sql: Sql) => T | Promise<T>;

/** Throws a 503 that names the shards if the database is not available; `error` otherwise. */
function refuse(databases: Databases, { id }: StoreDatabase, error: unknown): never {
  if (isMoving(error)) {
    const message = 'This store is being moved to another database; try again in a second';
    throw temporary(503, { code: 'unavailable', message }, 1);
  }
  if (id === HOME || !isUnavailable(error)) throw error;
  const shards = formatShards(shardsOf(databases.map, id));
  const message = `The database of this store (number ${id}, with the shards ${shards}) is not available; stores in other databases are not affected. Try again shortly`;
  throw temporary(503, { code: 'unavailable', message }, 5, { cause: error });
}

/** Creates the reads of the console of operators: in all databases, or in that of a store. */
function createConsoleReads(
  databases: Databases,
  {
    handlersOf,
    run,
  }: {
    handlersOf: (database: StoreDatabase) => OfDatabase;
    run: <T>(params: Params, use: Use<T>) => Promise<T>;
  },
) {
  const failingOf: ReadFailing = async (now, store) => {
    if (store !== undefined) return run({ store_id: String(store.storeId) }, (of) => of.failing(now, store));
    const found = databases.all().map(async (database) => {
      try {
        return await handlersOf(database).failing(now);
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        return [];
      }
    });
    return (await Promise.all(found)).flat().toSorted(byMissing);
  };
  const storeChangesOf: ReadStoreChanges = (store) =>
    run({ store_id: String(store.storeId) }, (of) => of.storeChanges(store));
  const readStatuses: ReadStatuses = () =>
    Promise.all(
      databases.all().map(async (database) => ({
        name: nameIn(databases.map, database.id),
        status: await handlersOf(database).status(),
      })),
    );
  return { each: databases.each, failingOf, storeChangesOf, readStatuses };
}

/** Returns the handlers of the database in which the address of each request is; with one database these are called directly. */
function openDatabaseHandlers(databases: Databases, deps: Deps) {
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
    const { admit, review, ...described } = select(inHome);
    return {
      ...described,
      admit: admit && (async (request) => at(request.params, async (of) => select(of).admit?.(request))),
      review: review && (async (request) => at(request.params, async (of) => select(of).review?.(request) ?? [])),
      handle: async (request, executionOf) =>
        at(request.params, async (of, sql) =>
          select(of).handle(request, () => executionOf().in(sql, shardOfAddress(request.params))),
        ),
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
  const publicKeys: RawHandler = async (request) => at(request.params, (of) => of.publicKeys(request));
  const handlers = {
    webhooks: operations((of) => of.webhooks),
    events: operations((of) => of.events),
    load: operation((of) => of.load),
    sampleEvents: operation((of) => of.sampleEvents),
    recoveries: operations((of) => of.recoveries),
    eventStatuses: operation((of) => of.eventStatuses),
    storeStatuses: operation((of) => of.storeStatuses),
    live,
    publicKeys,
    refeed: operation((of) => of.refeed),
    erasure: operation((of) => of.erasure),
    commerce: operations((of) => of.commerce),
  };
  const chartsOf: OfDatabase['chartsOf'] = (store, now) => handlersOf(databases.of(store.shard)).chartsOf(store, now);
  return { handlers, chartsOf, console: createConsoleReads(databases, { handlersOf, run }) };
}
