/** Composes accounts and OAuth: their pages, endpoints and operations, with what they and the stores add to each other. */
import { browsersSection, createAccount, createBrowsers } from '#identity/accounts/account-page.ts';
import { createChangeEmail } from '#identity/accounts/change-email.ts';
import { createExternalSignIn, createProvider } from '#identity/accounts/external-sign-in.ts';
import { createSecurity } from '#identity/accounts/factors/security.ts';
import { createConfirmation } from '#identity/accounts/signed-in.ts';
import { createLeave, leaveSection, type EraseUserData, type UserErasure } from '#identity/accounts/user-end.ts';
import {
  createChange,
  createForgot,
  createLinks,
  createReset,
  type EndGrants,
} from '#identity/accounts/password-change.ts';
import type { People } from '#identity/accounts/people.ts';
import type { PasswordCost } from '#identity/accounts/users.ts';
import { createSignIn, createSignInPages } from '#identity/accounts/sign-in.ts';
import { createSignUp } from '#identity/accounts/sign-up.ts';
import { createUserOperations } from '#identity/accounts/users-api.ts';
import { createAuthorize, targetsAfterSignIn } from '#identity/oauth/authorize/authorize.ts';
import { callerOf } from '#identity/oauth/clients/clients.ts';
import { createListing } from '#identity/oauth/clients/app-listing.ts';
import { removeClientsOf } from '#identity/oauth/clients/client-change.ts';
import { createClientOperations } from '#identity/oauth/clients/clients-api.ts';
import { createLogo } from '#identity/oauth/clients/logo.ts';
import { ownClientsSection } from '#identity/oauth/clients/own-clients-list.ts';
import { createOwnClients } from '#identity/oauth/clients/own-clients.ts';
import {
  connectedSection,
  createRevokeButton,
  exportedApps,
  exportedGrants,
  revokeGrantsOf,
} from '#identity/oauth/connected/connected.ts';
import { createStoreGrantOperations } from '#identity/oauth/connected/store-grants.ts';
import { createGrantOperations } from '#identity/oauth/connected/grants-api.ts';
import { createDeviceAuthorization, createDevicePage } from '#identity/oauth/device-flow.ts';
import { createOwnToken } from '#identity/oauth/own-token.ts';
import type { RevocationEffects } from '#identity/oauth/grants.ts';
import { deleteTokensOf, lockClientsOfUser } from '#identity/oauth/oauth-sql.ts';
import type { Bearer } from '#identity/oauth/oauth-tokens.ts';
import { createClientAuthentication } from '#identity/oauth/protocol-requests.ts';
import { formTargets } from '#identity/oauth/redirect-uri.ts';
import { createClientDocuments } from '#identity/oauth/registration/metadata-documents.ts';
import { createManagement, createRegister } from '#identity/oauth/registration/registration.ts';
import { createIntrospect, createRevoke } from '#identity/oauth/revoke.ts';
import { createTokenEndpoint } from '#identity/oauth/token-endpoint.ts';
import { redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { Health } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { EachDatabase } from '#shards/map.ts';
import type { Outbox } from '#shards/outbox.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import { deleteInvitationsTo } from '#stores/invitations/invitations-sql.ts';
import { createAdmission } from '#stores/members/awaited-member-operations.ts';
import { eraseSandboxOf, lockSandboxOf } from '#stores/sandbox.ts';
import type { Eraser } from '#stores/store.ts';
import { exportedMemberships, membershipsOf, startPageOf } from '#stores/home.ts';
import { createAppWebhooks } from '#webhooks/app-access/declaration.ts';
import type { Databases } from './databases.ts';
import type { Serving } from './store-database.ts';

/**
 * Erases the apps and the sandbox store of a user, and the invitations to the user's address; those by the user end with the
 * memberships. Without their owner the apps could not be managed, and an app without an owner counts as the operator's.
 *
 * Lock order: all clients before the grants, as everywhere a grant ends, so that two users connected to each other's apps
 * can be erased concurrently. Tokens are deleted before their grants (which the user's row cascades to), because a refresh
 * also locks its token first.
 */
export function eraseDataOf(effects: RevocationEffects, erasers: readonly Eraser[]): EraseUserData {
  return {
    lock: async (tx, userId) => {
      await lockClientsOfUser(tx, userId);
      await lockSandboxOf(tx, userId, effects.lockAppsOf);
    },
    erase: async (tx, { userId, actor, client, request, origin, now }) => {
      await revokeGrantsOf(tx, effects, { userId, actor, origin, now });
      await deleteTokensOf(tx, userId);
      const caller = callerOf(client ?? null, actor.client);
      await removeClientsOf(tx, effects, userId, { userId: null, caller, origin, now });
      await eraseSandboxOf(tx, { userId, erasers }, request);
      await deleteInvitationsTo(tx, userId);
    },
  };
}

/** Creates the pages and operations of accounts, with what OAuth and stores add to them. */
export function openAccounts(
  runtime: Runtime,
  people: People,
  parts: { effects: RevocationEffects; eachDatabase: EachDatabase; erasure: UserErasure; memberEffects: MemberEffects },
) {
  const { sql, config } = runtime;
  const { passwords, signedIn } = people;
  const { effects, eachDatabase, erasure, memberEffects } = parts;
  const memberships = (userId: number) => membershipsOf(sql.reads, userId);
  const endGrants: EndGrants = (tx, whose) => revokeGrantsOf(tx, effects, whose);
  const links = createLinks(runtime);
  const providers = config.accounts.openIdProviders.map((provider) => createProvider(provider, runtime));
  const pages = createSignInPages(runtime, people, {
    admitIdentity: createAdmission(runtime, memberEffects),
    providers: providers.map(({ name, issuer }) => ({ name, formTargets: formTargets(issuer) })),
    formTargets: (returnTo) => targetsAfterSignIn(runtime, returnTo),
  });
  const exportParts = {
    memberships: async (userId: number) => exportedMemberships(await memberships(userId)),
    grants: (userId: number) => exportedGrants(sql, eachDatabase, userId),
    own_apps: (userId: number) => exportedApps(sql, userId),
  };
  const sections = [
    browsersSection(runtime),
    connectedSection(sql, eachDatabase),
    ownClientsSection(sql),
    leaveSection(),
  ];
  return {
    signIn: createSignIn(runtime, people, pages),
    externalSignIn: createExternalSignIn({ runtime, people, providers, pages, erasure }),
    account: createAccount(runtime, signedIn, sections),
    browsers: createBrowsers(runtime, signedIn),
    security: createSecurity(runtime, people),
    confirmation: createConfirmation(runtime, people),
    startPage: signedIn.page(async (_request, { userId }) =>
      redirectAnswer(startPageOf(await memberships(userId), config.baseUrl)),
    ),
    email: createChangeEmail(runtime, people),
    signUp: createSignUp(runtime, people, erasure),
    leave: createLeave(runtime, people, { erasure, exportParts }),
    password: {
      change: createChange(runtime, people, endGrants),
      forgot: createForgot(runtime, people, links),
      reset: createReset(runtime, people, { pages, endGrants, erasure }),
    },
    users: createUserOperations(runtime, { passwords, links, erasure }),
  };
}

/** What a process that serves has beside its `Runtime`, whose `sql` and `direct` are those of the home database. */
export type ProcessParts = {
  databases: Databases;
  outbox: Outbox;
  health: Health;
  passwordCost: PasswordCost;
  bearer: Bearer;
};

/** Creates the OAuth endpoints, and the operations and pages of apps. */
export function openOAuth(
  runtime: Runtime,
  people: People,
  { serving, parts, memberEffects }: { serving: Serving; parts: ProcessParts; memberEffects: MemberEffects },
) {
  const { databases, outbox, bearer } = parts;
  const { config, sealer, guard, derive } = runtime;
  const { throttle, sessions, verified } = people;
  const { publishing: effects } = serving;
  const appWebhooks = createAppWebhooks({
    config,
    sealer,
    guard,
    accounts: effects.accounts,
    writeInternalEvents: effects.writeInternalEvents,
    announce: effects.announceChanges,
    handshake: serving.sending.handshake,
    each: databases.each,
    onDeclared: () => outbox.noteEnqueued(),
  });
  const authenticate = createClientAuthentication(runtime, throttle);
  const documents = createClientDocuments(runtime, {
    fetchDocument: (url) => serving.documents.fetch(url),
    throttle,
    appWebhooks,
  });
  const consenting = { runtime, people, effects, documents, root: rootOf(config.authUrl) };
  const userCodeKeys = derive('device user code');
  const apps = { effects, memberEffects, appWebhooks, eachDatabase: databases.each, bearer };
  return {
    authorize: createAuthorize(consenting),
    device: createDevicePage(consenting, userCodeKeys),
    deviceAuthorization: createDeviceAuthorization(runtime, { authenticate, throttle, userCodeKeys }),
    token: createTokenEndpoint(runtime, { authenticate, effects }),
    revoke: createRevoke(runtime, { authenticate, effects }),
    introspect: createIntrospect(runtime, { authenticate, bearer }),
    clients: createClientOperations(runtime, apps),
    grants: createGrantOperations(runtime, apps),
    storeGrants: createStoreGrantOperations(runtime, apps),
    ownClients: createOwnClients(runtime, people, apps),
    ownToken: createOwnToken(consenting),
    logo: createLogo(runtime),
    listing: createListing(runtime, sessions),
    revokeConnected: createRevokeButton(runtime, verified, effects),
    register: createRegister(runtime, people, apps),
    registration: createManagement(runtime, apps),
  };
}
