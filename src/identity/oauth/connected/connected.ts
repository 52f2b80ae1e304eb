/** Revokes the grants of users. There is no cache of tokens, so a revocation takes effect with the next request. */
import { originOf, recordAuditEntry, type Origin } from '#identity/accounts/audit.ts';
import { exported } from '#identity/accounts/user-end.ts';
import type { SignedIn } from '#identity/accounts/signed-in.ts';
import { inPerson, type Actor } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { Done } from '#http/operation.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { parseId } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { EachDatabase } from '#shards/map.ts';
import { listClientsOf } from '../clients/clients-sql.ts';
import { grantChanges, webhookWords, type RevocationEffects } from '../grants.ts';
import { permissionWords, scopeTextOfGrants } from '../scope.ts';
import type { MemberAccess } from '#stores/audited-changes.ts';
import {
  findUserGrant,
  hasGrant,
  listConnected,
  lockClientsOfMember,
  revokeGrants,
  revokeGrantsFor,
  type ConnectedApp,
} from './connected-sql.ts';
import type { AccountSection } from '#identity/accounts/account-page.ts';
import { stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { documentHost } from '../protocol-requests.ts';
import { logoImage } from '../clients/logo.ts';

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
  const rows = (await listConnected(sql, each, userId)).map((row) =>
    Object.assign(row, { scope: scopeTextOfGrants(row.storeId, row.permissions) }),
  );
  return exported(rows, 'id', 'clientId', 'name', 'storeId', 'scope', 'dateCreated', 'dateUsed');
}

/** Returns the own apps of a user for the export of the account. */
export async function exportedApps(sql: Sql, userId: number) {
  return exported(
    await listClientsOf(sql, userId),
    'clientId',
    'name',
    'company',
    'description',
    'contact',
    'redirectUris',
    'webhookUrl',
    'webhookEvents',
    'webhookQuery',
    'webhookFilter',
    'dateCreated',
    'dateModified',
  );
}

/** Returns the message after the end of an access. `isPart`: the app still has access that the same list shows. */
export function disconnected(isPart: boolean): Done {
  return isPart ? 'disconnected_partly' : 'disconnected';
}

/**
 * `active`: the active webhooks that the app created under the access; `stopping`: those of them that its end disables. `declares`: the app
 * declares a webhook. `isLast`: the app has no other access to the store; undefined if that is not known.
 */
type AccessEnd = { active: number; stopping: number; declares: boolean; isLast?: boolean };

const counted = (count: number): string => (count === 1 ? '1 webhook' : `${count} webhooks`);

/** Returns what the end of an access stops, what continues, and for how long. */
export function endWords({ active, stopping, declares, isLast }: AccessEnd): string {
  const kept = active - stopping;
  const parts = [
    'Its access ends at once, and so do its tokens.',
    stopping > 0 &&
      `${counted(stopping)} that it created ${stopping === 1 ? 'is' : 'are'} disabled: nothing is sent any more, except requests that are under way.`,
    kept > 0 &&
      `${counted(kept)} that it created ${kept === 1 ? 'stays' : 'stay'} active, because it has another access to the store.`,
    isLast === false &&
      'Other access of the app to this store, which is another entry of this list, stays with its tokens and webhooks.',
    declares && isLast === true && 'The webhook that it declares is sent one last event, app/uninstalled.',
    declares &&
      isLast !== true &&
      'The webhook that it declares is sent an event if this changes what the app may do in a store.',
    'It can ask for access again.',
  ];
  return parts.filter((part) => part !== false).join(' ');
}

const grantIdOf = ({ params }: RawRequest): number => parseId(params['grant_id'] ?? '') ?? 0;

/**
 * POST /account/connected/<grant_id>/revoke: revokes all grants of this client for this store, including newer ones. A grant
 * that has already ended is not an error, so that a double click succeeds.
 */
export function createRevokeButton(runtime: Runtime, signedIn: SignedIn, effects: RevocationEffects): RawHandler {
  const { sql, config } = runtime;
  return signedIn.form(
    (request) => boundToRevoke(grantIdOf(request)),
    async (request, { userId }) => {
      const grant = await findUserGrant(sql, grantIdOf(request));
      if (grant?.userId !== userId) throw notFound('connected app');
      const which = { userId, clientId: grant.client, storeId: grant.storeId };
      const by = { actor: inPerson(userId), origin: originOf(request), now: request.now };
      const done = await transaction(sql, async (tx) => {
        await revokeGrantsOf(tx, effects, { ...which, ...by });
        return disconnected(await hasGrant(tx, { userId, client: grant.client }));
      });
      return redirectAnswer(`${rootOf(config.authUrl)}/account?done=${done}`);
    },
  );
}

function boundToRevoke(grantId: number) {
  return ['revoke grant', grantId] as const;
}

function placeOf({ storeId, storeName }: ConnectedApp): string {
  if (storeId === null) return 'Your account and all your stores';
  return storeName ?? `A store that no longer exists (${storeId})`;
}

/** Returns what the app has access to, in words for the person who connected it. */
export function reachOf(row: ConnectedApp): string {
  return row.storeName === null || row.isMember
    ? placeOf(row)
    : `Nothing: you are no longer a member of ${row.storeName}`;
}

const entry = (root: string, row: ConnectedApp, nonce: string): Markup => {
  const maker = documentHost(row.clientId) ?? row.company;
  return html`<li>
    <div class="who">
      ${logoImage(root, row)}
      <p>
        <strong>${row.name}</strong> ${!row.isVerified && stateBadge('unverified')}
        ${row.isSuspended && html`<span class="badge">Suspended by the operator</span>`}
        ${maker !== null && html`<br /><span class="soft">${maker}</span>`}
      </p>
    </div>
    <dl>
      <dt>Access to</dt>
      <dd>${reachOf(row)}</dd>
      <dt>Permissions</dt>
      ${permissionWords(row).map((text) => html`<dd>${text}</dd>`)}
      <dt>Since</dt>
      <dd>${shownDate(row.dateCreated)}</dd>
      <dt>Last used</dt>
      <dd>${row.dateUsed === null ? 'Never' : shownDate(row.dateUsed)}</dd>
      ${
        row.dateEnds !== null &&
        html`<dt>Ends</dt>
          <dd>${shownDate(row.dateEnds)}</dd>`
      }
      <dt>Its webhooks</dt>
      <dd>${webhookWords(row.webhooks)}</dd>
    </dl>
    <details class="fold">
      <summary>Disconnect …<span class="unseen"> ${row.name}</span></summary>
      <form method="post" action="${root}/account/connected/${row.id}/revoke">
        <input type="hidden" name="nonce" value="${nonce}" />
        <p>${endWords({ ...row.webhooks, declares: row.declares })}</p>
        <button type="submit" class="danger" aria-label="Disconnect ${row.name} from ${placeOf(row)}">
          Disconnect
        </button>
      </form>
    </details>
  </li>`;
};

export function connectedSection(sql: Sql, eachDatabase: EachDatabase): AccountSection {
  return async ({ session, nonce, root }) => {
    const rows = await listConnected(sql, eachDatabase, session.userId);
    return html`<div class="card">
      <h2 id="connected">Connected apps</h2>
      ${rows.length === 0 && html`<p class="soft">No connected apps.</p>`}
      ${
        rows.length > 0 &&
        html`<p class="soft">Apps that you have given access: one entry per store, or one for your whole account.</p>
          <ul class="entries" aria-labelledby="connected">
            ${rows.map((row) => entry(root, row, nonce(boundToRevoke(row.id))))}
          </ul>`
      }
    </div>`;
  };
}
