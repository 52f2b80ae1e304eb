/** What the pages of a user's own apps share: dependencies, the lookup of the app, and the page frame. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import { accountNav } from '#identity/accounts/page-kit.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import type { SecurityMails } from '#identity/accounts/account-mails.ts';
import type { SignedIn } from '#identity/accounts/signed-in.ts';
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { notFound } from '#core/problem.ts';
import type { EachDatabase } from '#shards/each.ts';
import type { SandboxDeps } from '#stores/sandbox.ts';
import type { RevocationEffects } from '../grant-changes.ts';
import { isClientId } from './clients.ts';
import type { AppWebhooks } from './app-webhook.ts';
import type { ClientActor } from './action.ts';
import { findOwnClient, type Client } from './clients-sql.ts';

export type PagesDeps = RevocationEffects &
  Omit<SandboxDeps, 'sql'> & {
    appWebhooks: AppWebhooks;
    sql: Sql;
    eachDatabase: EachDatabase;
    signedIn: SignedIn;
    /** The path prefix of the pages, without a trailing slash. */
    root: string;
    /** The address of the API. */
    baseUrl: string;
    /** Undefined if the operator has configured no mail. */
    securityMails: SecurityMails | undefined;
    clientsPerUser: number;
    clientSecretOverlapHours: number;
  };

export function clientIdOf({ params }: RawRequest): string {
  return params['client_id'] ?? '';
}

export function pathOf(root: string, clientId: string): string {
  return `${root}/account/clients/${clientId}`;
}

/** Returns the user's app. Throws the same 404 for another user's app and for one that does not exist. */
export async function ownClientOf(sql: Sql, request: RawRequest, session: Session): Promise<Client> {
  const clientId = clientIdOf(request);
  const client = isClientId(clientId) ? await findOwnClient(sql, clientId, session.userId) : undefined;
  if (client === undefined) throw notFound('app');
  return client;
}

export function clientActorOf(request: RawRequest, session: Session): ClientActor {
  return {
    userId: session.userId,
    origin: originOf(request),
    now: request.now,
  };
}

export function appsPage(root: string, title: string, main: Markup): string {
  return shell({ title, nav: accountNav(root, 'apps'), main });
}
