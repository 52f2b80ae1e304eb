/** Creates the pages, endpoints and operations of clients and grants from their dependencies. */
import type { AccountSection } from '#identity/accounts/account.ts';
import type { Sessions } from '#identity/accounts/sessions.ts';
import type { SecurityMails } from '#identity/accounts/security-mails.ts';
import type { SignedIn } from '#identity/accounts/signed-in.ts';
import type { Throttle } from '#identity/accounts/throttle/throttle.ts';
import type { Sql } from '#db/pool.ts';
import type { EachDatabase } from '#shards/each.ts';
import { rootOf } from '#http/root.ts';
import type { Operation } from '#http/operation.ts';
import type { RawHandler } from '#http/route.ts';
import type { RevocationEffects } from './grant-changes.ts';
import type { Bearer } from './bearer.ts';
import type { AppWebhooks } from './clients/app-webhook.ts';
import { createClientOperations, type ClientOperations } from './clients/api/operations.ts';
import { createLogo } from './clients/logo/logo.ts';
import { ownClientsSection } from './clients/pages/list-page.ts';
import { createListing } from './clients/pages/listing.ts';
import { createOwnClients, type OwnClients } from './clients/pages/own-clients.ts';
import { createGrantOperations } from './connected/api/operations.ts';
import { createRevokeButton, memberAccessOf } from './connected/connected.ts';
import { connectedSection } from './connected/section.ts';
import { createManagement } from './registration/manage.ts';
import { createRegister } from './registration/register.ts';

export type Apps = {
  clients: ClientOperations;
  grants: Record<'list' | 'read' | 'remove', Operation>;
  ownClients: OwnClients;
  logo: RawHandler;
  listing: Record<'show' | 'install', RawHandler>;
  revokeConnected: RawHandler;
  register: RawHandler;
  registration: Record<'read' | 'replace' | 'remove', RawHandler>;
};

export type AppsDeps = RevocationEffects & {
  appWebhooks: AppWebhooks;
  sql: Sql;
  eachDatabase: EachDatabase;
  sessions: Sessions;
  signedIn: SignedIn;
  securityMails: SecurityMails | undefined;
  throttle: Throttle;
  bearer: Bearer;
  baseUrl: string;
  authUrl: string;
  clientsPerUser: number;
  clientSecretOverlapHours: number;
  openRegistration: boolean;
  /** Whether users may create sandbox stores. */
  allowsSandboxes: boolean;
};

export function createApps(deps: AppsDeps): Apps {
  const { authUrl } = deps;
  const memberAccess = memberAccessOf(deps);
  const all = { ...deps, memberAccess, authOrigin: new URL(authUrl).origin, root: rootOf(authUrl) };
  return {
    clients: createClientOperations(all),
    grants: createGrantOperations(all),
    ownClients: createOwnClients(all),
    logo: createLogo(all),
    listing: createListing(all),
    revokeConnected: createRevokeButton(all),
    register: createRegister(all),
    registration: createManagement(all),
  };
}

/** Returns the account page's sections: the connected apps and the user's own apps. */
export function appSections(deps: { sql: Sql; eachDatabase: EachDatabase }): AccountSection[] {
  return [connectedSection(deps), ownClientsSection(deps)];
}
