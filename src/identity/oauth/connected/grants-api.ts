/**
 * The API of the grants of a user: {base_url}/users/<id>/grants and {base_url}/grants/<id>. The platform, the user and an app with access to the whole
 * account see all grants of the user; an app for one store only its own. An app revokes only its own.
 */
import { formatDate } from '#hypermedia/date.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import { propertiesOf } from '#http/field-table.ts';
import { isInPerson, reachesAccount, reachesStore, reachesUser, type Principal } from '#core/principal.ts';
import { addressOfClient } from '../clients/client-document.ts';
import { documentHost } from '../protocol-requests.ts';
import { permissionWords, scopeTextOfGrants } from '../scope.ts';
import {
  countGrants,
  findUserGrant,
  findGrant,
  hasGrant,
  listGrants,
  type UserGrant,
  type ConnectedApp,
  type GrantFilter,
} from './connected-sql.ts';
import { originOf } from '#identity/accounts/audit.ts';
import { findUser } from '#identity/accounts/users-sql.ts';
import { actorOf } from '#changelog/changelog.ts';
import { transaction } from '#db/pool.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest } from '#http/operation.ts';
import { idIn } from '#http/route.ts';
import { notFound, Problem } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { accessView, type AppsDeps, GRANT_PROPERTIES, grantFields, webhookWords } from '../grants.ts';
import { disconnected, reachOf, revokeGrantsOf } from './connected.ts';

function addressOfGrants(userId: number, baseUrl: string): string {
  return `${baseUrl}/users/${userId}/grants`;
}

export function addressOfGrant(id: number, baseUrl: string): string {
  return `${baseUrl}/grants/${id}`;
}

/** Returns the link to the app, for those who see it: the platform and its developer. */
export function linksToApp(
  { clientId, ownerId }: Pick<ConnectedApp, 'clientId' | 'ownerId'>,
  { principal, baseUrl }: Pick<Shown, 'principal' | 'baseUrl'>,
): Link[] {
  if (principal.scope !== 'platform' && (ownerId === null || !reachesAccount(principal, ownerId))) return [];
  return [{ rel: 'client', href: addressOfClient(clientId, baseUrl), title: 'The app' }];
}

type Shown = { id: number; userId: number; principal: Principal; baseUrl: string };

function linksOf(row: ConnectedApp, shown: Shown): Link[] {
  const { storeId, storeName } = row;
  const { id, userId, principal, baseUrl } = shown;
  const links: Link[] = [
    { rel: 'self', href: addressOfGrant(id, baseUrl), title: 'This connected app' },
    { rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'The user who connected it' },
    { rel: 'grants', href: addressOfGrants(userId, baseUrl), title: 'All connected apps of this user' },
  ];
  if (storeId !== null && storeName !== null && reachesStore(principal, storeId))
    links.push({ rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'The store it can access' });
  return [...links, ...linksToApp(row, shown)];
}

const describe = propertiesOf(grantFields);

/**
 * Returns the Document of a connected app: one per store and one for the whole account, even with several grants. `id` is
 * the latest grant's, unless the request named another.
 */
export function grantDocument(row: ConnectedApp, shown: Shown): Document {
  return {
    name: 'grant',
    title: row.name,
    // A grant never changes until it ends.
    version: shown.id,
    links: linksOf(row, shown),
    embedded: [],
    properties: describe({ ...row, id: shown.id }, 'UTC', {
      user_email: shown.principal.scope === 'platform' || isInPerson(shown.principal) ? row.email : null,
      scope: scopeTextOfGrants(row.storeId, row.permissions),
      webhooks_total: row.webhooks.total,
      webhooks_active: row.webhooks.active,
    }),
    ...accessView.attach({
      company: documentHost(row.clientId) ?? row.company,
      isUnverified: !row.isVerified,
      reach: reachOf(row),
      permissions: permissionWords(row),
      since: formatDate(row.dateCreated, 'UTC'),
      lastUsed: row.dateUsed && formatDate(row.dateUsed, 'UTC'),
      ends: row.dateEnds && formatDate(row.dateEnds, 'UTC'),
      webhooks: webhookWords(row.webhooks),
    }),
  };
}

/** Returns the filter of a user's grants that the caller may see; undefined if none. */
function visibleGrants(principal: Principal, userId: number): GrantFilter | undefined {
  if (!reachesUser(principal, userId)) return undefined;
  if (reachesAccount(principal, userId)) return { userId };
  const { clientId, stores } = principal;
  const [storeId] = stores;
  if (clientId === null || typeof storeId !== 'number') return undefined;
  return { userId, client: clientId, storeId };
}

/** Returns whether the caller sees the grant. */
function reaches(principal: Principal, { userId, client, storeId, isRevoked }: UserGrant): boolean {
  if (isRevoked) return false;
  const filter = visibleGrants(principal, userId);
  if (filter === undefined) return false;
  return filter.client === undefined || (filter.client === client && filter.storeId === storeId);
}

/** Throws a 403 if an app would revoke the grant of another: what the user allowed it does not include that. */
function requireOwnGrant(principal: Principal, { client }: UserGrant): void {
  if (principal.scope === 'platform' || isInPerson(principal) || principal.clientId === client) return;
  const message = 'An app can revoke only its own access: other apps are disconnected on the account page';
  throw new Problem(403, { code: 'other_app', message });
}

const idOf = (request: Pick<ApiRequest, 'params'>): number => idIn(request, 'grant_id', 'grant');

export function createGrantOperations(
  { sql, config: { baseUrl } }: Runtime,
  { effects, eachDatabase: each }: AppsDeps,
) {
  return {
    list: listing({
      summary: 'Lists the apps connected to a user',
      scopes: 'any',
      rel: 'grants',
      title: 'Connected apps',
      properties: GRANT_PROPERTIES,
      handle: async (request) => {
        const { principal, listing: query } = request;
        const userId = idIn(request, 'user_id', 'user');
        const filter = visibleGrants(principal, userId);
        if (filter === undefined || (await findUser(sql, userId)) === undefined) throw notFound('user');
        const [rows, total] = await Promise.all([
          listGrants(sql, each, filter, query),
          countGrants(sql, filter, query),
        ]);
        const items = rows.map((row) => grantDocument(row, { id: row.id, userId, principal, baseUrl }));
        return { path: addressOfGrants(userId, baseUrl), items, total };
      },
    }),
    read: guarded({
      summary: 'Returns a connected app',
      scopes: 'any',
      handle: async (request) => {
        const id = idOf(request);
        const { principal } = request;
        const grant = await findUserGrant(sql, id);
        const row = grant !== undefined && reaches(principal, grant) ? await findGrant(sql, each, grant) : undefined;
        if (grant === undefined || row === undefined) throw notFound('grant');
        const { userId } = grant;
        return { status: 200, document: grantDocument(row, { id, userId, principal, baseUrl }) };
      },
    }),
    remove: guarded({
      title: 'Disconnect the app',
      isConditional: true,
      summary:
        "Revokes the app's access: its tokens stop working immediately, and its webhooks are disabled, unless the user has given it another access to their stores",
      scopes: 'any',
      handle: async (request) => {
        const id = idOf(request);
        const { ofUser, done } = await transaction(sql, async (tx) => {
          const grant = await findUserGrant(tx, id);
          if (grant === undefined || !reaches(request.principal, grant)) throw notFound('grant');
          requireOwnGrant(request.principal, grant);
          request.unmodified(id);
          const { client: clientId, userId, storeId } = grant;
          const by = { actor: actorOf(request.principal), origin: originOf(request), now: request.now };
          // The grants are not locked above, because they are locked in the order of their ids. 0 if a concurrent request has
          // revoked them.
          const ended = await revokeGrantsOf(tx, effects, { userId, storeId, clientId, ...by });
          if (ended === 0) throw notFound('grant');
          return { ofUser: userId, done: disconnected(await hasGrant(tx, { userId, client: clientId })) };
        });
        return { status: 204, next: addressOfGrants(ofUser, baseUrl), done };
      },
    }),
  };
}
