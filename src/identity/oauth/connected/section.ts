/** Renders connected apps as a section of the account page, each with a button to disconnect it. */
import type { AccountSection } from '#identity/accounts/account.ts';
import type { Sql } from '#db/pool.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { logoImage } from '../clients/logo/logo.ts';
import { listConnected, type ConnectedRow } from './connected-sql.ts';

/** Returns what the nonce of a disconnect button is bound to. */
export function boundToRevoke(grantId: number) {
  return ['revoke grant', grantId] as const;
}

function placeOf({ storeId, storeName }: ConnectedRow): string {
  if (storeId === null) return 'Your account and all your stores';
  return storeName ?? `A store that no longer exists (${storeId})`;
}

const reachOf = (row: ConnectedRow): string =>
  row.storeName === null || row.isMember ? placeOf(row) : `Nothing: you are no longer a member of ${row.storeName}`;

/** The permissions of each kind of access, as on the consent page. */
const MAY_STORE = 'See and change everything: customers, subscriptions, transactions and webhooks';
const MAY_ACCOUNT = 'See your account and do everything you can in all your stores, including future ones';

const entry = (root: string, row: ConnectedRow, nonce: string): Markup =>
  html`<div role="listitem">
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
      <dd>${row.storeId === null ? MAY_ACCOUNT : MAY_STORE}</dd>
      <dt>Since</dt>
      <dd>${shownDate(row.since)}</dd>
      <dt>Last used</dt>
      <dd>${row.lastUsed === null ? 'Never' : shownDate(row.lastUsed)}</dd>
    </dl>
    <form method="post" action="${root}/account/connected/${row.grantId}/revoke">
      <input type="hidden" name="nonce" value="${nonce}" />
      <button type="submit" class="quiet danger" aria-label="Disconnect ${row.name} from ${placeOf(row)}">
        Disconnect
      </button>
    </form>
  </div>`;

export function connectedSection({ sql }: { sql: Sql }): AccountSection {
  return async ({ session, nonce, root, done }) => {
    const rows = await listConnected(sql, session.userId);
    return html`<div class="card">
      <h2 id="connected">Connected apps</h2>
      ${done === 'revoked' && html`<p class="good" role="status">App disconnected. It no longer has access.</p>`}
      ${rows.length === 0 && html`<p class="soft">No connected apps.</p>`}
      ${
        rows.length > 0 &&
        html`<p>An app that you disconnect loses access immediately. It can request access again.</p>
          <div role="list" aria-labelledby="connected">
            ${rows.map((row) => entry(root, row, nonce(boundToRevoke(row.grantId))))}
          </div>`
      }
    </div>`;
  };
}
