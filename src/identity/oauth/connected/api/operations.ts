/**
 * The API operations on grants: {base_url}/users/<id>/grants and {base_url}/grants/<id>. The platform, the user and an app
 * with access to the whole account see all grants of the user; an app for one store only its own. An app revokes only its own.
 */
import { originOf } from '#identity/accounts/audit/audit.ts';
import { findUser } from '#identity/accounts/accounts-sql.ts';
import { actorOf } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { listing } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { parseId } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { isInPerson, reachesAccount, reachesUser, type Principal } from '#core/principal.ts';
import type { EachDatabase } from '#shards/each.ts';
import type { RevocationEffects } from '../../grant-changes.ts';
import { revokeGrantsOf } from '../connected.ts';
import type { GrantFilter } from '../connected-sql.ts';
import { addressOfGrants, GRANT_PROPERTIES, grantDocument } from './document.ts';
import { countGrants, findGrant, findActiveGrant, listGrants, type ActiveGrant } from './connected-page-sql.ts';

type Deps = RevocationEffects & { sql: Sql; eachDatabase: EachDatabase; baseUrl: string };

/** Returns the filter of a user's grants that the caller may see; undefined if none. */
function visibleGrants(principal: Principal, userId: number): GrantFilter | undefined {
  if (!reachesUser(principal, userId)) return undefined;
  if (reachesAccount(principal, userId)) return { userId };
  const { clientId, stores } = principal;
  const [storeId] = stores;
  if (clientId === null || typeof storeId !== 'number') return undefined;
  return { userId, of: { client: clientId, storeId } };
}

function reaches(principal: Principal, { userId, client, storeId }: ActiveGrant): boolean {
  const filter = visibleGrants(principal, userId);
  return (
    filter !== undefined && (filter.of === undefined || (filter.of.client === client && filter.of.storeId === storeId))
  );
}

/** Throws a 403 if an app would revoke the grant of another: what the user allowed it does not include that. */
function requireOwnGrant(principal: Principal, { client }: ActiveGrant): void {
  if (principal.scope === 'platform' || isInPerson(principal) || principal.clientId === client) return;
  const message = 'An app can revoke only its own access: other apps are disconnected on the account page';
  throw new Problem(403, { code: 'other_app', message });
}

function idOf({ params }: Pick<ApiRequest, 'params'>): number {
  const id = parseId(params['grant_id'] ?? '');
  if (id === undefined) throw notFound('grant');
  return id;
}

export function createGrantOperations({
  sql,
  eachDatabase: each,
  baseUrl,
  ...after
}: Deps): Record<'list' | 'read' | 'remove', Operation> {
  return {
    list: listing({
      summary: 'Lists the apps connected to a user',
      scopes: 'any',
      rel: 'grants',
      title: 'Connected apps',
      properties: GRANT_PROPERTIES,
      handle: async ({ params, principal, listing: query }) => {
        const userId = parseId(params['user_id'] ?? '');
        const filter = userId === undefined ? undefined : visibleGrants(principal, userId);
        if (userId === undefined || filter === undefined || (await findUser(sql, userId)) === undefined)
          throw notFound('user');
        const [rows, total] = await Promise.all([
          listGrants(sql, each, filter, query),
          countGrants(sql, filter, query),
        ]);
        const items = rows.map((row) => grantDocument(row, { id: row.grantId, userId, principal, baseUrl }));
        return { path: addressOfGrants(userId, baseUrl), items, total };
      },
    }),
    read: guarded({
      summary: 'Returns a connected app',
      scopes: 'any',
      handle: async (request) => {
        const id = idOf(request);
        const { principal } = request;
        const grant = await findActiveGrant(sql, id);
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
        const userId = await transaction(sql, async (tx) => {
          const grant = await findActiveGrant(tx, id);
          if (grant === undefined || !reaches(request.principal, grant)) throw notFound('grant');
          requireOwnGrant(request.principal, grant);
          request.unmodified(id);
          const { client: clientId, ...which } = grant;
          const by = { actor: actorOf(request.principal), origin: originOf(request), now: request.now };
          // Not locked above, because grants are locked in the order of their ids. 0 if a concurrent request has revoked
          // them.
          const ended = await revokeGrantsOf(tx, after, { ...which, clientId, ...by });
          if (ended === 0) throw notFound('grant');
          return grant.userId;
        });
        return { status: 204, next: addressOfGrants(userId, baseUrl) };
      },
    }),
  };
}
