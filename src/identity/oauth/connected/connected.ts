/** Revokes the grants of users. There is no cache of tokens, so a revocation takes effect with the next request. */
import { originOf, recordAuditEntry, type Origin } from '#identity/accounts/audit/audit.ts';
import type { SignedIn } from '#identity/accounts/signed-in.ts';
import { inPerson, type Actor } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { parseId } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { EachDatabase } from '#shards/each.ts';
import { listClientsOf } from '../clients/clients-sql.ts';
import { grantChanges, type RevocationEffects } from '../grant-changes.ts';
import { scopeNames, scopeOfGrants } from '../scope.ts';
import type { MemberAccess } from '#stores/audited-changes.ts';
import { findOwnGrant, listConnected, lockClientsOfMember, revokeGrants, revokeGrantsFor } from './connected-sql.ts';
import { boundToRevoke } from './section.ts';

/**
 * Revokes the active grants of a user (of one client or for one store, null: the account, if these internal ids are given),
 * records each in the audit and in its store's changelog, and returns their number. Call it in the transaction of the action.
 */
export async function revokeGrantsOf(
  sql: Queryable,
  { changelog, accessChanged }: RevocationEffects,
  which: { userId: number; clientId?: number; storeId?: number | null; actor: Actor; origin: Origin | null; now: Date },
): Promise<number> {
  const { userId, clientId, actor, origin, now } = which;
  const revoked = await revokeGrants(sql, { userId, client: clientId, storeId: which.storeId }, now);
  if (revoked.length > 0) await accessChanged(sql, { userId, client: clientId, storeId: which.storeId }, now);
  for (const { client, storeId } of revoked)
    await recordAuditEntry(sql, { action: 'grant_revoked', userId, client, storeId, origin, now });
  await changelog.record(sql, grantChanges(revoked, { actor, action: 'revoked' }), now);
  return revoked.length;
}

/**
 * Returns how the access begins and ends that a member gave to apps, with the membership. A grant for the account only gets or loses the
 * store.
 */
export function memberAccessOf(effects: RevocationEffects): MemberAccess {
  return {
    lock: lockClientsOfMember,
    begin: effects.accessChanged,
    end: async (tx, { userId, storeId }, { actor, request, now }) => {
      await revokeGrantsOf(tx, effects, { userId, storeId, actor, origin: request && originOf(request), now });
      await effects.accessChanged(tx, { userId, storeId }, now);
    },
  };
}

/**
 * Revokes all grants for a store and audits each, in the transaction of the store's erasure. It writes no changelog, because
 * the store's changelog is erased too.
 */
export async function revokeGrantsForStore(
  sql: Queryable,
  { storeId, origin, now }: { storeId: number; origin: Origin | null; now: Date },
): Promise<void> {
  for (const ended of await revokeGrantsFor(sql, storeId, now))
    await recordAuditEntry(sql, { action: 'grant_revoked', ...ended, origin, now });
}

/** Returns the connected apps of a user for the export of the account. */
export async function exportedGrants(sql: Sql, each: EachDatabase, userId: number) {
  return (await listConnected(sql, each, userId)).map((row) => ({
    id: row.grantId,
    client_id: row.clientId,
    name: row.name,
    store_id: row.storeId,
    scope: scopeNames(scopeOfGrants(row.storeId, row.permissions)).join(' '),
    date_created: row.since,
    date_used: row.lastUsed,
  }));
}

/** Returns the own apps of a user for the export of the account. */
export async function exportedApps(sql: Sql, userId: number) {
  return (await listClientsOf(sql, userId)).map((app) => ({
    client_id: app.clientId,
    name: app.name,
    company: app.company,
    description: app.description,
    contact: app.contact,
    redirect_uris: app.redirectUris,
    webhook_url: app.webhookUrl,
    date_created: app.dateCreated,
    date_modified: app.dateModified,
  }));
}

const grantIdOf = ({ params }: RawRequest): number => parseId(params['grant_id'] ?? '') ?? 0;

/**
 * POST /account/connected/<grant_id>/revoke: revokes all grants of this client for this store, including newer ones. A grant
 * that has already ended is not an error, so that a double click succeeds.
 */
export function createRevokeButton(
  deps: RevocationEffects & { sql: Sql; signedIn: SignedIn; root: string },
): RawHandler {
  return deps.signedIn.form(
    (request) => boundToRevoke(grantIdOf(request)),
    async (request, { userId }) => {
      const grant = await findOwnGrant(deps.sql, grantIdOf(request), userId);
      if (grant === undefined) throw notFound('connected app');
      const which = { userId, clientId: grant.client, storeId: grant.storeId };
      const by = { actor: inPerson(userId), origin: originOf(request), now: request.now };
      await transaction(deps.sql, (tx) => revokeGrantsOf(tx, deps, { ...which, ...by }));
      return redirectAnswer(`${deps.root}/account?done=revoked#connected`);
    },
  );
}
