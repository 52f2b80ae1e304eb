/** The composition root of the request handlers: constructs the parts in the order in which they depend on each other. */
import { createAccounts } from '#identity/accounts/account-handlers.ts';
import { originOf } from '#identity/accounts/audit.ts';
import { findFactors } from '#identity/accounts/factors/factors-sql.ts';
import { hasSecondFactor } from '#identity/accounts/factors/second-factor.ts';
import type { PasswordCost } from '#identity/accounts/passwords.ts';
import { createPeople, type People } from '#identity/accounts/people.ts';
import { createUserErasure, type EraseUserData, type UserErasure } from '#identity/accounts/user-erasure.ts';
import { createPages } from '#identity/accounts/visitor.ts';
import { collections } from '#catalog/catalog.ts';
import { createDashboard } from '#dashboard/dashboard.ts';
import { createFrontPage } from '#dashboard/front-page.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { rescheduleSnapshot } from '#events/snapshots/snapshots.ts';
import type { Pages } from '#http/caller.ts';
import type { DesignedPages } from '#http/services.ts';
import { createAssets } from '#http/assets.ts';
import { createFixedAddresses } from '#http/fixed-addresses.ts';
import { createHealthEndpoints } from '#http/health-endpoints.ts';
import { rootOf } from '#http/route.ts';
import { createIdempotency } from '#http/idempotency.ts';
import type { Health } from '#core/health.ts';
import { shardOf } from '#core/ids.ts';
import { listTestable, type Testable } from '#webhooks/store-webhooks-sql.ts';
import { appSections, createApps, eraseAppsOf } from '#identity/oauth/apps.ts';
import { createAuthorize, createConsenting, targetsAfterSignIn } from '#identity/oauth/authorize/authorize.ts';
import type { Bearer } from '#identity/oauth/bearer.ts';
import { createClientAuthentication } from '#identity/oauth/client-auth.ts';
import { createDeviceAuthorization, createDevicePage } from '#identity/oauth/device/device-flow.ts';
import {
  exportedApps,
  exportedGrants,
  memberAccessOf,
  revokeGrantsForStore,
  revokeGrantsOf,
} from '#identity/oauth/connected/connected.ts';
import type { RevocationEffects } from '#identity/oauth/grant-changes.ts';
import { formTargets } from '#identity/oauth/redirect-uri.ts';
import { createIntrospect } from '#identity/oauth/introspect.ts';
import { createInvitationMails, createInvitationPages } from '#identity/invitations/invitations.ts';
import { createReceivedInvitations } from '#identity/invitations/invitation-pages.ts';
import { createMetadata, createResourceMetadata } from '#identity/oauth/metadata.ts';
import { createRevoke } from '#identity/oauth/revoke.ts';
import { createTokenEndpoint } from '#identity/oauth/token-endpoint.ts';
import { setBrand } from '#hypermedia/shell.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import { createHome } from '#stores/home.ts';
import { deleteInvitationsTo } from '#stores/invitations/invitations-sql.ts';
import { createInvitationOperations, createInviting } from '#stores/invitations/invitation-operations.ts';
import { createMemberOperations } from '#stores/members/member-operations.ts';
import type { Eraser } from '#stores/store-erasure.ts';
import { createStoreOperations } from '#stores/store-operations.ts';
import type { Outbox } from '#shards/outbox.ts';
import { createSandbox, eraseSandboxOf, lockSandboxOf } from '#stores/sandbox.ts';
import { exportedMemberships, membershipsOf } from '#stores/store.ts';
import { startPageOf, storeTabs } from '#stores/tabs.ts';
import { createAppWebhooks } from '#webhooks/app-access/declaration.ts';
import { openReference } from './compose-reference.ts';
import { openDatabaseHandlers, servingOf } from './compose-stores.ts';
import type { Databases } from './databases.ts';
import { announceChanges, type Publishing } from './publishing.ts';
import { routesOf, type Handlers } from './routes.ts';
import type { Serving } from './store-database.ts';

/** What a process that serves has beside its `Runtime`, whose `sql` and `direct` are those of the home database. */
type ProcessParts = {
  databases: Databases;
  outbox: Outbox;
  health: Health;
  passwordCost: PasswordCost;
  bearer: Bearer;
};

/** Runs before the webhooks are erased: the end of a grant takes its locks in this order. */
const eraseGrants: Eraser = async (tx, { storeId }, request) => {
  await revokeGrantsForStore(tx, { storeId, origin: originOf(request), now: request.now });
  return undefined;
};

/** Returns what erases the data of a store in other modules; stores do not import webhooks or OAuth. */
function erasersOf({ webhooksOfStore }: Serving, outbox: Outbox): readonly Eraser[] {
  // A trigger adds the erasure to the outbox.
  const noteErasure: Eraser = async () => {
    outbox.noteEnqueued();
    return undefined;
  };
  return [eraseGrants, webhooksOfStore.erase, noteErasure];
}

/**
 * Erases the apps and the sandbox store of a user, and the invitations to the user's address; those by the user end with the
 * memberships.
 */
function eraseDataOf(effects: RevocationEffects, erasers: readonly Eraser[]): EraseUserData {
  const apps = eraseAppsOf(effects);
  return {
    lock: async (tx, userId) => {
      await apps.lock(tx, userId);
      await lockSandboxOf(tx, userId);
    },
    erase: async (tx, of) => {
      await apps.erase(tx, of);
      await eraseSandboxOf(tx, { userId: of.userId, erasers }, of.request);
      await deleteInvitationsTo(tx, of.userId);
    },
  };
}

/** Creates the pages and operations of accounts, with what OAuth and stores add to them. */
function openAccounts(
  runtime: Runtime,
  people: People,
  { publishing, databases, erasure }: { publishing: Publishing; databases: Databases; erasure: UserErasure },
) {
  const { sql, config } = runtime;
  const { each } = databases;
  const memberships = (userId: number) => membershipsOf(sql.reads, userId);
  return createAccounts(runtime, people, {
    erasure,
    endGrants: (tx, whose) => revokeGrantsOf(tx, publishing, whose),
    exportParts: {
      memberships: async (userId) => exportedMemberships(await memberships(userId)),
      grants: (userId) => exportedGrants(sql, each, userId),
      own_apps: (userId) => exportedApps(sql, userId),
    },
    sections: appSections(runtime, each),
    startPathOf: async (userId) => startPageOf(await memberships(userId), config.baseUrl),
    formTargets: (returnTo) => targetsAfterSignIn(runtime, returnTo),
    formTargetsOf: formTargets,
  });
}

/** Creates the OAuth endpoints, and the operations and pages of apps. */
function openOAuth(
  runtime: Runtime,
  people: People,
  deps: { serving: Serving; parts: ProcessParts; memberEffects: MemberEffects },
) {
  const { config, sealer, guard, derive } = runtime;
  const { throttle } = people;
  const { serving, memberEffects } = deps;
  const { databases, outbox, bearer } = deps.parts;
  const { publishing: effects } = serving;
  const appWebhooks = createAppWebhooks({
    config,
    sealer,
    guard,
    accounts: effects.accounts,
    writeInternalEvents: effects.writeInternalEvents,
    announce: announceChanges,
    handshake: serving.sending.handshake,
    onDeclared: () => outbox.noteEnqueued(),
  });
  const authenticate = createClientAuthentication({ throttle });
  const consenting = createConsenting(runtime, people, effects);
  const userCodeKeys = derive('device user code');
  return {
    authorize: createAuthorize(consenting),
    device: createDevicePage(consenting, userCodeKeys),
    deviceAuthorization: createDeviceAuthorization(runtime, { authenticate, throttle, userCodeKeys }),
    token: createTokenEndpoint(runtime, { authenticate, effects }),
    revoke: createRevoke(runtime, { authenticate, effects }),
    introspect: createIntrospect(runtime, { authenticate, bearer }),
    ...createApps(runtime, people, { effects, memberEffects, appWebhooks, eachDatabase: databases.each, bearer }),
  };
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

/** The handlers of all routes, and what the HTTP layer needs of them. */
type Composed = {
  handlers: Handlers;
  pages: Pages;
  designedPages: DesignedPages;
  idempotency: ReturnType<typeof createIdempotency>;
};

export function compose(runtime: Runtime, parts: ProcessParts): Composed {
  const { config, sql, sealer, derive } = runtime;
  const { databases, outbox, bearer } = parts;
  const { baseUrl, authUrl, naming } = config;
  const { logo, ...brand } = config.brand;
  setBrand({ ...brand, logoPath: logo && `${rootOf(baseUrl)}/assets/${logo.file}` });
  const serving = servingOf(databases.home);
  const { publishing, webhooksOfStore } = serving;
  const { changelog } = publishing;
  const people = createPeople(runtime, parts.passwordCost);
  const { throttle } = people;
  const pages = createPages(runtime, people, {
    membershipsOf: (userId) => membershipsOf(sql.reads, userId),
    tabsOf: (document, nameOf) => storeTabs(document, { baseUrl, nameOf }),
  });
  const ofStores = openDatabaseHandlers(databases, { bearer, throttle, pages });
  const memberEffects = { changelog, memberAccess: memberAccessOf(publishing) };
  const inviting = createInviting(runtime, { changelog, mails: createInvitationMails(runtime, throttle) });
  const erasers = erasersOf(serving, outbox);
  const erasure = createUserErasure(runtime, { changelog, eraseUserData: eraseDataOf(publishing, erasers) });
  const signInPath = `${rootOf(authUrl)}/sign-in`;
  const frontPage = createFrontPage({ signInPath, versionHeader: naming.versionHeader });
  const handlers: Handlers = {
    home: createHome(config, (shown) => frontPage({ ...shown, naming: { baseUrl, ...naming } })),
    stores: createStoreOperations(runtime, {
      changelog,
      collections: collections(),
      chartsOf: ofStores.chartsOf,
      hasSecondFactor: async (tx, userId) => hasSecondFactor(await findFactors(tx, userId)),
      onDomainChanged: webhooksOfStore.renew,
      rescheduleSnapshot,
      erasers,
    }),
    sandbox: createSandbox(runtime, { effects: memberEffects, collections: collections() }),
    members: createMemberOperations(runtime, { effects: memberEffects, inviting }),
    invitations: createInvitationOperations(runtime, { changelog, inviting }),
    receivedInvitations: createReceivedInvitations(runtime, memberEffects),
    invitation: createInvitationPages(runtime, people, { effects: memberEffects, erasure }),
    ...ofStores.handlers,
    ...openAccounts(runtime, people, { publishing, databases, erasure }),
    ...openOAuth(runtime, people, { serving, parts, memberEffects }),
    metadata: createMetadata(config),
    resourceMetadata: createResourceMetadata(config),
    fixedAddresses: createFixedAddresses(config, config.securityContact),
    assets: createAssets(logo),
    health: createHealthEndpoints(parts.health),
    reference: openReference(config, {
      testableOf: (ids, limit) => listTestableIn(databases, ids, limit),
      routes: () => routesOf(handlers, config),
    }),
  };
  const { retentionDays } = config.database;
  const sqlOf = (shard: number) => databases.of(shard).sql;
  const designedPages = createDashboard({ sqlOf, accounts: sql, root: rootOf(authUrl), retentionDays });
  const idempotency = createIdempotency({ sql, sealer, fingerprintKeys: derive('idempotency fingerprint') });
  return { handlers, pages, designedPages, idempotency };
}
