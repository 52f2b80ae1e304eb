/** Renders the list of a user's own apps, as a page and as a section of the account page. */
import type { AccountSection } from '#identity/accounts/account.ts';
import type { Sql } from '#db/pool.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { logoImage } from '../logo/logo.ts';
import { listClientsOf, type Client } from '../clients-sql.ts';
import { appsPage, pathOf } from './page-context.ts';

const entry = (root: string, client: Client): Markup =>
  html`<div class="who">
    ${logoImage(root, client)}
    <p>
      <a href="${pathOf(root, client.clientId)}">${client.name}</a>
      ${!client.isVerified && html`<span class="badge">Unverified</span>`}
      <br /><span class="soft">Client ID <code>${client.clientId}</code></span>
    </p>
  </div>`;

export function listPage(view: {
  root: string;
  clients: readonly Client[];
  isOneDeleted: boolean;
  sandbox: Markup | null;
}): string {
  const { root, clients, isOneDeleted, sandbox } = view;
  return appsPage(
    root,
    'Your apps',
    html`<div class="card">
        <h1>Your apps</h1>
        ${isOneDeleted && html`<p class="good" role="status">App deleted. Its secrets and tokens no longer work.</p>`}
        <p>An app that you create here can request access from the users of any store.</p>
        ${clients.length === 0 && html`<p class="soft">No apps yet.</p>`}
        ${clients.map((client) => entry(root, client))}
        <div class="buttons"><a class="button" href="${root}/account/clients/new">New app</a></div>
      </div>
      ${sandbox}`,
  );
}

/** Returns the account page's section of the user's own apps. */
export function ownClientsSection({ sql }: { sql: Sql }): AccountSection {
  return async ({ session, root }) => {
    const clients = await listClientsOf(sql, session.userId);
    return html`<div class="card">
      <h2>Your apps</h2>
      ${clients.length === 0 && html`<p class="soft">No apps yet.</p>`} ${clients.map((client) => entry(root, client))}
      <div class="buttons"><a class="button quiet" href="${root}/account/clients">Manage your apps</a></div>
    </div>`;
  };
}
