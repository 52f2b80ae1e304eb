/**
 * Renders the list of a user's own apps, as a page with the sandbox store and as a section of the account page. POST
 * /account/sandbox-store creates that store.
 */
import type { AccountSection } from '#identity/accounts/account-page.ts';
import type { Sql } from '#db/pool.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { logoImage } from './logo.ts';
import { listClientsOf, type Client } from './clients-sql.ts';
import { appsPage, pathOf } from './client-form.ts';
import { inPerson } from '#changelog/changelog.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawHandler } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import { shardOf } from '#core/ids.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { findMember } from '#stores/members/members-sql.ts';
import { provideSandbox } from '#stores/sandbox.ts';
import { findSandbox } from '#stores/stores-sql.ts';
import { postForm } from '#identity/accounts/page-kit.ts';

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
export function ownClientsSection(sql: Sql): AccountSection {
  return async ({ session, root }) => {
    const clients = await listClientsOf(sql, session.userId);
    return html`<div class="card">
      <h2>Your apps</h2>
      ${clients.length === 0 && html`<p class="soft">No apps yet.</p>`} ${clients.map((client) => entry(root, client))}
      <div class="buttons"><a class="button quiet" href="${root}/account/clients">Manage your apps</a></div>
    </div>`;
  };
}

const FORM = ['create sandbox store'] as const;

const pathOfStore = (storeId: number, baseUrl: string): string => new URL(addressOfStore(storeId, baseUrl)).pathname;

/** Renders the card; null if the user has no sandbox store and cannot create one. */
export async function sandboxCard(runtime: Runtime, people: People, session: Session): Promise<Markup | null> {
  const { sql, config } = runtime;
  const { baseUrl, authUrl, stores } = config;
  const { userId } = session;
  const store = await findSandbox(sql, userId);
  if (store === undefined && !stores.allowsSandboxes) return null;
  const key = store && { shard: shardOf(store.id), storeId: store.id, userId };
  const isMember = key !== undefined && (await findMember(sql, key)) !== undefined;
  return html`<div class="card">
    <h2>Sandbox store</h2>
    <p>A store of your own, in which you make sample events for your apps: customers, orders and subscriptions.</p>
    ${
      store === undefined || !isMember
        ? postForm({
            action: `${rootOf(authUrl)}/account/sandbox-store`,
            hidden: { nonce: people.verified.nonce(session, FORM) },
            submit: store === undefined ? 'Create sandbox store' : 'Return to the sandbox store',
          })
        : html`<div class="buttons">
            <a class="button quiet" href="${pathOfStore(store.id, baseUrl)}">Open the sandbox store</a>
          </div>`
    }
  </div>`;
}

export function createSandboxForm(runtime: Runtime, { verified }: People, effects: MemberEffects): RawHandler {
  return verified.form(
    () => FORM,
    async ({ now }, { userId }) => {
      const store = await provideSandbox(runtime, effects, userId, { actor: inPerson(userId), now });
      return redirectAnswer(pathOfStore(store.id, runtime.config.baseUrl));
    },
  );
}
