/** The list of a person's own apps, and the section of the account page that leads there. */
import type { AccountSection } from '#identity/accounts/account.ts';
import type { Sql } from '#db/pool.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { logoImage } from '../logo/logo.ts';
import { listClientsOf, type Client } from '../clients-sql.ts';
import { appsPage, pathOf } from './visit.ts';

const entry = (root: string, client: Client): Markup =>
  html`<div class="who">
    ${logoImage(root, client)}
    <p>
      <a href="${pathOf(root, client.clientId)}">${client.name}</a>
      ${!client.isVerified && html`<span class="badge">Unverified</span>`}
      <br /><span class="soft">Client ID <code>${client.clientId}</code></span>
    </p>
  </div>`;

export const listPage = (view: { root: string; clients: readonly Client[]; isOneDeleted: boolean }): string => {
  const { root, clients, isOneDeleted } = view;
  return appsPage(
    root,
    'Your apps',
    html`<div class="card">
      <h1>Your apps</h1>
      ${isOneDeleted && html`<p class="good" role="status">The app is deleted, and nothing of it works any more.</p>`}
      <p>An app that you make here can ask any store's people to let it in.</p>
      ${clients.length === 0 && html`<p class="soft">You have made none yet.</p>`}
      ${clients.map((client) => entry(root, client))}
      <div class="buttons"><a class="button" href="${root}/account/clients/new">New app</a></div>
    </div>`,
  );
};

/** On the account page: the apps that somebody has made. */
export const ownClientsSection =
  ({ sql }: { sql: Sql }): AccountSection =>
  async ({ session, root }) => {
    const clients = await listClientsOf(sql, session.userId);
    return html`<div class="card">
      <h2>Your apps</h2>
      ${clients.length === 0 && html`<p class="soft">You have made none yet.</p>`}
      ${clients.map((client) => entry(root, client))}
      <div class="buttons"><a class="button quiet" href="${root}/account/clients">Apps that you make</a></div>
    </div>`;
  };
