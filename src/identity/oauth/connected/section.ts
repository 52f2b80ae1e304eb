/** Renders connected apps as a section of the account page, each with a button to disconnect it. */
import type { AccountSection } from '#identity/accounts/account.ts';
import type { Sql } from '#db/pool.ts';
import type { EachDatabase } from '#shards/each.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { logoImage } from '../clients/logo/logo.ts';
import { permissionTexts, scopeOfGrants } from '../scope.ts';
import { listConnected, type AppWebhooks, type ConnectedApp } from './connected-sql.ts';

/** Returns what the nonce of a disconnect button is bound to. */
export function boundToRevoke(grantId: number) {
  return ['revoke grant', grantId] as const;
}

function placeOf({ storeId, storeName }: ConnectedApp): string {
  if (storeId === null) return 'Your account and all your stores';
  return storeName ?? `A store that no longer exists (${storeId})`;
}

const reachOf = (row: ConnectedApp): string =>
  row.storeName === null || row.isMember ? placeOf(row) : `Nothing: you are no longer a member of ${row.storeName}`;

/** The permissions of each kind of access, as on the consent page. */
const MAY_STORE = 'See and change everything: customers, subscriptions, transactions and webhooks';
const MAY_ACCOUNT = 'See your account and do everything you can in all your stores, including future ones';

/** Returns what an app may do: the sentence of its full access, or those of its limited scopes. */
function permissionsOf({ storeId, permissions }: ConnectedApp): readonly string[] {
  const { permissions: limited } = scopeOfGrants(storeId, permissions);
  if (limited === null) return [storeId === null ? MAY_ACCOUNT : MAY_STORE];
  const texts = permissionTexts();
  return limited.map((name) => texts.get(name) ?? name);
}

const counted = (count: number): string => (count === 1 ? '1 webhook' : `${count} webhooks`);

/** Returns how many webhooks the app created, and their state. */
function webhooksOf({ total, active }: AppWebhooks): string {
  if (total === 0) return 'None';
  if (active === total) return `${total}, ${total === 1 ? 'active' : 'all active'}`;
  return active === 0 ? `${total}, ${total === 1 ? 'inactive' : 'none active'}` : `${total}, of which ${active} active`;
}

/** Returns what ends if the app is disconnected. */
function endsOf({ active, stopping }: AppWebhooks): string {
  const kept = active - stopping;
  const parts = [
    'Its access ends at once, and so do its tokens.',
    stopping > 0 &&
      `${counted(stopping)} that it created ${stopping === 1 ? 'is' : 'are'} disabled: nothing is sent any more.`,
    kept > 0 &&
      `${counted(kept)} that it created ${kept === 1 ? 'stays' : 'stay'} active, because it has another access to the store.`,
    'It can ask for access again.',
  ];
  return parts.filter((part) => part !== false).join(' ');
}

const entry = (root: string, row: ConnectedApp, nonce: string): Markup =>
  html`<li>
    <div class="who">
      ${logoImage(root, row)}
      <p>
        <strong>${row.name}</strong> ${!row.isVerified && html`<span class="badge">Unverified</span>`}
        ${row.company !== null && html`<br /><span class="soft">${row.company}</span>`}
      </p>
    </div>
    <dl>
      <dt>Access to</dt>
      <dd>${reachOf(row)}</dd>
      <dt>Permissions</dt>
      ${permissionsOf(row).map((text) => html`<dd>${text}</dd>`)}
      <dt>Since</dt>
      <dd>${shownDate(row.since)}</dd>
      <dt>Last used</dt>
      <dd>${row.lastUsed === null ? 'Never' : shownDate(row.lastUsed)}</dd>
      <dt>Its webhooks</dt>
      <dd>${webhooksOf(row.webhooks)}</dd>
    </dl>
    <details class="fold">
      <summary>Disconnect …<span class="unseen"> ${row.name}</span></summary>
      <form method="post" action="${root}/account/connected/${row.grantId}/revoke">
        <input type="hidden" name="nonce" value="${nonce}" />
        <p>${endsOf(row.webhooks)}</p>
        <button type="submit" class="danger" aria-label="Disconnect ${row.name} from ${placeOf(row)}">
          Disconnect
        </button>
      </form>
    </details>
  </li>`;

export function connectedSection({ sql, eachDatabase }: { sql: Sql; eachDatabase: EachDatabase }): AccountSection {
  return async ({ session, nonce, root, done }) => {
    const rows = await listConnected(sql, eachDatabase, session.userId);
    return html`<div class="card">
      <h2 id="connected">Connected apps</h2>
      ${done === 'revoked' && html`<p class="good" role="status">App disconnected. It no longer has access.</p>`}
      ${rows.length === 0 && html`<p class="soft">No connected apps.</p>`}
      ${
        rows.length > 0 &&
        html`<p class="soft">Apps that you have given access: one entry per store, or one for your whole account.</p>
          <ul class="entries" aria-labelledby="connected">
            ${rows.map((row) => entry(root, row, nonce(boundToRevoke(row.grantId))))}
          </ul>`
      }
    </div>`;
  };
}
