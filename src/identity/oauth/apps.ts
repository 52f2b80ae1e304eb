/** Creates the pages, endpoints and operations of clients and grants from their dependencies. */
import type { AccountSection } from '#identity/accounts/account-page.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import type { EachDatabase } from '#shards/map.ts';
import type { RevocationEffects } from './grant-changes.ts';
import type { Bearer } from './oauth-tokens.ts';
import type { AppWebhooks } from './clients/app-webhook.ts';
import { createClientOperations } from './clients/clients-api.ts';
import { createLogo } from './clients/logo.ts';
import { ownClientsSection } from './clients/own-clients-list.ts';
import { createListing } from './clients/app-listing.ts';
import { createOwnClients } from './clients/own-clients.ts';
import { createGrantOperations } from './connected/grants-api.ts';
import { connectedSection, createRevokeButton, revokeGrantsOf } from './connected/connected.ts';
import { createManagement, createRegister } from './registration/registration.ts';
import type { EraseUserData } from '#identity/accounts/user-erasure.ts';
import { removeClientsOf } from './clients/client-change.ts';
import { callerOf } from './clients/action.ts';
import { deleteTokensOf, lockClientsOfUser } from './oauth-sql.ts';

/** What apps and grants change and read outside their own tables. */
export type AppsDeps = {
  effects: RevocationEffects;
  memberEffects: MemberEffects;
  appWebhooks: AppWebhooks;
  eachDatabase: EachDatabase;
  bearer: Bearer;
};

export function createApps(runtime: Runtime, people: People, deps: AppsDeps) {
  return {
    clients: createClientOperations(runtime, deps),
    grants: createGrantOperations(runtime, deps),
    ownClients: createOwnClients(runtime, people, deps),
    logo: createLogo(runtime),
    listing: createListing(runtime, people.sessions),
    revokeConnected: createRevokeButton(runtime, people.verified, deps.effects),
    register: createRegister(runtime, people, deps),
    registration: createManagement(runtime, deps),
  };
}

export type Apps = ReturnType<typeof createApps>;

/** Returns the account page's sections: the connected apps and the user's own apps. */
export function appSections({ sql }: Pick<Runtime, 'sql'>, eachDatabase: EachDatabase): AccountSection[] {
  return [connectedSection(sql, eachDatabase), ownClientsSection(sql)];
}

/**
 * A user's apps are deleted too: without their owner they could not be managed, and an app without an owner counts as the
 * operator's.
 *
 * Lock order: all clients before the grants, as everywhere a grant ends, so that two users connected to each other's apps
 * can be erased concurrently. Tokens are deleted before their grants (which the user's row cascades to), because a refresh
 * also locks its token first.
 */
export function eraseAppsOf(after: RevocationEffects): EraseUserData {
  return {
    lock: lockClientsOfUser,
    erase: async (tx, { userId, actor, client, origin, now }) => {
      await revokeGrantsOf(tx, after, { userId, actor, origin, now });
      await deleteTokensOf(tx, userId);
      await removeClientsOf(tx, after, userId, {
        userId: null,
        caller: callerOf(client ?? null, actor.client),
        origin,
        now,
      });
    },
  };
}
