/** The composition root of the request handlers: passes each module the parts that it needs. */
import {
  createAccounts,
  createSecondFactors,
  type AccountsDeps,
  type SecondFactors,
} from '#identity/accounts/accounts.ts';
import { originOf } from '#identity/accounts/audit/audit.ts';
import { findFactors } from '#identity/accounts/factors/factors-sql.ts';
import { hasSecondFactor } from '#identity/accounts/factors/second-factor.ts';
import { createPasswords, type PasswordCost } from '#identity/accounts/passwords.ts';
import { createSecurityMails, type SecurityMails } from '#identity/accounts/account-mails.ts';
import { createSessions } from '#identity/accounts/sessions.ts';
import { createSignedIn, forVerified } from '#identity/accounts/signed-in.ts';
import { createThrottle, type Throttle } from '#identity/accounts/throttle/throttle.ts';
import { createEraseUnverified, type EraseUnverified } from '#identity/accounts/user-erasure.ts';
import { createPages, type TabsOf } from '#identity/accounts/visitor.ts';
import { collections } from '#catalog/catalog.ts';
import { createDashboard } from '#dashboard/dashboard.ts';
import { createFrontPage } from '#dashboard/front-page.ts';
import type { Sql } from '#db/pool.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { rescheduleSnapshot } from '#events/snapshots/snapshots.ts';
import type { Pages } from '#http/caller.ts';
import type { DesignedPages } from '#http/services.ts';
import { createAssets } from '#http/assets.ts';
import { createFixedAddresses } from '#http/fixed-addresses.ts';
import { createHealthEndpoints } from '#http/health.ts';
import { rootOf } from '#http/root.ts';
import { createIdempotency } from '#http/idempotency.ts';
import type { Health } from '#core/health.ts';
import type { Keys } from '#core/keys.ts';
import { appSections, createApps, eraseAppsOf } from '#identity/oauth/apps.ts';
import { createAuthorize, targetsAfterSignIn } from '#identity/oauth/authorize/authorize.ts';
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
import { formTargets } from '#identity/oauth/redirect-uri.ts';
import { createIntrospect } from '#identity/oauth/introspect.ts';
import { createInvitationMails } from '#identity/invitations/invitations.ts';
import { createInvitationPages } from '#identity/invitations/invitations.ts';
import { createReceivedInvitations } from '#identity/invitations/received-invitations.ts';
import { createMetadata, createResourceMetadata } from '#identity/oauth/metadata.ts';
import { createRevoke } from '#identity/oauth/revoke.ts';
import { createTokenEndpoint } from '#identity/oauth/token-endpoint.ts';
import { setBrand } from '#hypermedia/shell.ts';
import { createHome } from '#stores/home.ts';
import { deleteInvitationsTo } from '#stores/invitations/invitations-sql.ts';
import {
  createInvitationOperations,
  createInviting,
  pendingInvitations,
} from '#stores/invitations/invitation-operations.ts';
import { createMemberOperations } from '#stores/members/member-operations.ts';
import type { Eraser } from '#stores/erase.ts';
import { createStoreOperations, type StoreDeps } from '#stores/store-operations.ts';
import type { Outbox } from '#shards/outbox.ts';
import { createSandbox, eraseSandboxOf, lockSandboxOf } from '#stores/sandbox.ts';
import { exportedMemberships, membershipsOf } from '#stores/store.ts';
import { startPageOf, storeTabs } from '#stores/tabs.ts';
import { createAppWebhooks } from '#webhooks/app-access/declaration.ts';
import { openReference } from './reference.ts';
import { listTestableIn, openDatabaseHandlers, servingOf } from './compose-stores.ts';
import type { Databases } from './databases.ts';
import { announceChanges, type Publishing } from './publishing.ts';
import { routesOf, type Handlers } from './routes.ts';
import type { Serving } from './store-database.ts';

/** `sql` and `direct` are those of the home database. */
export type ComposeDeps = Runtime & {
  databases: Databases;
  outbox: Outbox;
  health: Health;
  passwordCost: PasswordCost;
  bearer: Bearer;
};

/** `serving`: that of the home database. */
type HomeDeps = ComposeDeps & { serving: Serving; publishing: Publishing };

/** Runs before the webhooks are erased: the end of a grant takes its locks in this order. */
const eraseGrants: Eraser = async (tx, { storeId }, request) => {
  await revokeGrantsForStore(tx, { storeId, origin: originOf(request), now: request.now });
  return undefined;
};

/** Wires the changes that follow a change or erasure of a store; stores do not import webhooks or OAuth. */
function openStores(deps: HomeDeps, { throttle }: { throttle: Throttle }, chartsOf: StoreDeps['chartsOf']) {
  const { config, sql, outbox, publishing, serving, mailer } = deps;
  const { baseUrl, authUrl } = config;
  const { webhooksOfStore } = serving;
  // A trigger adds the erasure to the outbox.
  const noteErasure: Eraser = async () => {
    outbox.noteEnqueued();
    return undefined;
  };
  const erasers: readonly Eraser[] = [eraseGrants, webhooksOfStore.erase, noteErasure];
  const mails = mailer && createInvitationMails({ throttle, mailer, authUrl });
  const inviting = { sql, changelog: publishing.changelog, mails, baseUrl, authUrl, ...config.stores };
  return {
    erasers,
    stores: createStoreOperations({
      sql,
      changelog: publishing.changelog,
      baseUrl,
      collections: collections(),
      chartsOf,
      onDomainChanged: webhooksOfStore.renew,
      rescheduleSnapshot,
      hasSecondFactor: async (tx, userId) => hasSecondFactor(await findFactors(tx, userId)),
      erasers,
    }),
    sandbox: createSandbox({
      ...config.stores,
      sql,
      changelog: publishing.changelog,
      memberAccess: memberAccessOf(publishing),
      baseUrl,
      collections: collections(),
    }),
    members: createMemberOperations({
      ...publishing,
      ...config.stores,
      sql,
      baseUrl,
      memberAccess: memberAccessOf(publishing),
      invite: createInviting(inviting),
      pendingInvitations: (store) => pendingInvitations(inviting, store),
    }),
    invitations: createInvitationOperations(inviting),
  };
}

type OAuthParts = {
  derive: (purpose: string) => Keys;
  sessions: ReturnType<typeof createSessions>;
  signedIn: ReturnType<typeof createSignedIn>;
  throttle: Throttle;
  factors: SecondFactors;
  securityMails: SecurityMails | undefined;
};

/** Creates the OAuth endpoints and the pages of apps. */
function openOAuth(
  { config, sql, databases, outbox, sealer, guard, bearer, publishing, serving }: HomeDeps,
  { derive, sessions, signedIn, throttle, factors, securityMails }: OAuthParts,
) {
  const { baseUrl, authUrl, oauth } = config;
  const authenticate = createClientAuthentication({ throttle });
  const authorizing = {
    ...oauth,
    ...publishing,
    sql,
    sessions,
    stepUp: factors.stepUp,
    securityMails,
    throttle,
    issuer: authUrl,
    baseUrl,
    nonceKeys: derive('authorize nonce'),
  };
  const userCodeKeys = derive('device user code');
  const appWebhooks = createAppWebhooks({
    ...publishing,
    config,
    sealer,
    guard,
    announce: announceChanges,
    handshake: serving.sending.handshake,
    onDeclared: () => outbox.noteEnqueued(),
  });
  return {
    authorize: createAuthorize(authorizing),
    device: createDevicePage({ ...authorizing, userCodeKeys }),
    deviceAuthorization: createDeviceAuthorization({
      sql,
      authenticate,
      throttle,
      baseUrl,
      authUrl,
      userCodeKeys,
    }),
    token: createTokenEndpoint({
      ...publishing,
      sql,
      authenticate,
      baseUrl,
      lifetimes: oauth,
      rotation: {
        successorKeys: derive('refresh token successor'),
        rotatedTokenKeptDays: config.housekeeping.rotatedTokenKeptDays,
      },
    }),
    revoke: createRevoke({ ...publishing, sql, authenticate }),
    introspect: createIntrospect({ sql, authenticate, bearer, issuer: authUrl, lifetimes: oauth }),
    ...createApps({
      ...oauth,
      ...publishing,
      ...config.stores,
      appWebhooks,
      sql,
      eachDatabase: databases.each,
      sessions,
      signedIn,
      securityMails,
      throttle,
      bearer,
      baseUrl,
      authUrl,
    }),
  };
}

/**
 * Erases the apps and the sandbox store of a user, and the invitations to the user's address; those by the user end with the
 * memberships.
 */
function eraseDataOf(publishing: Publishing, erasers: readonly Eraser[]): AccountsDeps['eraseUserData'] {
  const apps = eraseAppsOf(publishing);
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

type PeopleParts = {
  securityMails: SecurityMails | undefined;
  passwords: ReturnType<typeof createPasswords>;
  sessions: ReturnType<typeof createSessions>;
  signedIn: ReturnType<typeof createSignedIn>;
  throttle: Throttle;
  factors: SecondFactors;
  derive: (purpose: string) => Keys;
  eraseUserData: AccountsDeps['eraseUserData'];
  eraseUnverified: EraseUnverified;
  memberships: (userId: number) => ReturnType<typeof membershipsOf>;
};

/** Wires the pages of accounts. */
function openAccounts(
  { config, sql, databases, log, sealer, mailer, publishing }: HomeDeps,
  { factors, memberships, ...shared }: PeopleParts,
) {
  const { baseUrl, authUrl, accounts } = config;
  return createAccounts({
    ...shared,
    sql,
    changelog: publishing.changelog,
    log,
    mailer,
    factors,
    sealer,
    baseUrl,
    authUrl,
    sections: appSections({ sql, eachDatabase: databases.each }),
    formTargets: (returnTo) => targetsAfterSignIn({ sql, issuer: authUrl, baseUrl }, returnTo),
    startPathOf: async (userId) => startPageOf(await memberships(userId), baseUrl),
    endGrants: (tx, whose) => revokeGrantsOf(tx, publishing, whose),
    exportParts: {
      memberships: async (userId) => exportedMemberships(await memberships(userId)),
      grants: (userId) => exportedGrants(sql, databases.each, userId),
      own_apps: (userId) => exportedApps(sql, userId),
    },
    passwordResetMinutes: accounts.passwordResetMinutes,
    emailConfirmHours: accounts.emailConfirmHours,
    emailUndoDays: accounts.emailUndoDays,
    allowsSignUp: accounts.allowsSignUp,
    allowsSandboxes: config.stores.allowsSandboxes,
    signUpMinutes: accounts.signUpMinutes,
    openIdProviders: accounts.openIdProviders,
    formTargetsOf: formTargets,
  });
}

/** Wires what a person does with an invitation: with its link, and signed in. */
function openInvitations({ config, sql, log, mailer, publishing }: HomeDeps, { factors, ...shared }: PeopleParts) {
  const { baseUrl, authUrl, accounts, stores } = config;
  const accepting = {
    ...stores,
    sql,
    changelog: publishing.changelog,
    memberAccess: memberAccessOf(publishing),
    baseUrl,
  };
  return {
    receivedInvitations: createReceivedInvitations(accepting),
    invitation: createInvitationPages({
      ...shared,
      ...accepting,
      devices: factors.devices,
      mailer,
      signUpMinutes: accounts.signUpMinutes,
      log,
      authUrl,
    }),
  };
}

/** Creates the handlers of all routes, and what the HTTP layer needs of them. */
export function compose(composeDeps: ComposeDeps): {
  handlers: Handlers;
  pages: Pages;
  designedPages: DesignedPages;
  idempotency: ReturnType<typeof createIdempotency>;
} {
  const { config, sql, databases, log, sealer, mailer, derive } = composeDeps;
  const serving = servingOf(databases.home);
  const deps: HomeDeps = { ...composeDeps, serving, publishing: serving.publishing };
  const { baseUrl, authUrl, naming, accounts } = config;
  const { logo, ...brand } = config.brand;
  setBrand({ ...brand, logoPath: logo && `${rootOf(baseUrl)}/assets/${logo.file}` });
  const passwords = createPasswords({ hashesAtOnce: accounts.passwordHashesAtOnce, cost: composeDeps.passwordCost });
  const { requiresSecondFactor } = accounts;
  const sessions = createSessions({ sql, authUrl, ...accounts.sessions, requiresSecondFactor });
  const throttle = createThrottle({ sql });
  const factors = createSecondFactors({ sql, sealer, passwords, throttle, mailer, derive, baseUrl, authUrl });
  const { devices, stepUp } = factors;
  const signedIn = createSignedIn({ sessions, authUrl, nonceKeys: derive('form nonce'), stepUp });
  const securityMails = mailer && createSecurityMails({ sql, devices, throttle, mailer, log, authUrl });
  const memberships = (userId: number) => membershipsOf(sql.reads, userId);
  const tabsOf: TabsOf = (document, nameOf) => storeTabs(document, { baseUrl, nameOf });
  const pages = createPages({ sessions, signedIn, membershipsOf: memberships, tabsOf, stepUp, baseUrl, authUrl });
  const idempotency = createIdempotency({ sql, sealer, fingerprintKeys: derive('idempotency fingerprint') });
  const signInPath = `${rootOf(authUrl)}/sign-in`;
  const frontPage = createFrontPage({ signInPath, versionHeader: naming.versionHeader });
  const ofStores = openDatabaseHandlers(databases, { ...composeDeps, throttle, pages });
  const { erasers, ...stores } = openStores(deps, { throttle }, ofStores.chartsOf);
  const eraseUserData = eraseDataOf(serving.publishing, erasers);
  const eraseUnverified = createEraseUnverified({ ...serving.publishing, eraseUserData });
  const accounting = { securityMails, passwords, sessions, signedIn, throttle, factors, derive };
  const parts: PeopleParts = { ...accounting, eraseUserData, eraseUnverified, memberships };
  const handlers: Handlers = {
    home: createHome({ baseUrl, authUrl }, (shown) => frontPage({ ...shown, naming: { baseUrl, ...naming } })),
    ...stores,
    ...ofStores.handlers,
    ...openAccounts(deps, parts),
    ...openInvitations(deps, parts),
    ...openOAuth(deps, {
      derive,
      sessions,
      signedIn: forVerified(signedIn, authUrl),
      throttle,
      factors,
      securityMails,
    }),
    metadata: createMetadata({ baseUrl, authUrl }),
    resourceMetadata: createResourceMetadata({ baseUrl, authUrl }),
    fixedAddresses: createFixedAddresses({ baseUrl, authUrl }, config.securityContact),
    assets: createAssets(logo),
    health: createHealthEndpoints(deps.health),
    reference: openReference(config, {
      testableOf: (ids, limit) => listTestableIn(databases, ids, limit),
      routes: () => routesOf(handlers, config),
    }),
  };
  const { retentionDays } = config.database;
  const sqlOf = (shard: number): Sql => databases.of(shard).sql;
  const designedPages = createDashboard({ sqlOf, accounts: sql, root: rootOf(authUrl), retentionDays });
  return { handlers, pages, designedPages, idempotency };
}
