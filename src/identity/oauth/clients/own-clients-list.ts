/**
 * Renders the list of a user's own apps, as a page with the sandbox store and as a section of the account page. POST /account/sandbox-store
 * creates that store. GET /account/clients/new and POST /account/clients create an app.
 */
import type { AccountSection } from '#identity/accounts/account-page.ts';
import type { Sql } from '#db/pool.ts';
import { stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { logoImage } from './logo.ts';
import { listClientsOf, type Client } from './clients-sql.ts';
import { appsPage, confidentialFields, labelOf, pathOf, readForm, refusedAlert, settingFields } from './client-form.ts';
import { parseSettings, type ClientPart } from './client-fields.ts';
import { urlFaults } from './client-change.ts';
import { inPerson } from '#changelog/changelog.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { MemberEffects } from '#stores/audited-changes.ts';
import { shardOf } from '#core/ids.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { findMember } from '#stores/members/members-sql.ts';
import { provideSandbox } from '#stores/sandbox.ts';
import { findSandbox } from '#stores/stores-sql.ts';
import { accountNav, cardPage, choice, postForm, type FormHandlers } from '#identity/accounts/page-kit.ts';
import { originOf } from '#identity/accounts/audit.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { type AppWebhooks, createClient, type NewClient, newClientFaults, newClientId } from './clients.ts';
import { secretPage } from './own-client-page.ts';

const entry = (root: string, client: Client): Markup =>
  html`<div class="who">
    ${logoImage(root, client)}
    <p>
      <a href="${pathOf(root, client.clientId)}">${client.name}</a>
      ${!client.isVerified && stateBadge('unverified')}
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

type View = { clientId: string; nonce: string; values: ClientPart; faults: readonly Fault[]; alert?: string };

const kindFields = ({ is_public: isPublic }: ClientPart) =>
  html`<fieldset>
    <legend>Where does it run?</legend>
    ${choice({
      name: 'is_public',
      value: '0',
      isRadio: true,
      isChecked: isPublic !== true,
      label: 'On your own server',
      hint: 'The app gets a client secret, which it can keep there.',
    })}
    ${choice({
      name: 'is_public',
      isRadio: true,
      isChecked: isPublic === true,
      label: "On users' devices, or in their browsers",
      hint: 'The app gets no secret. PKCE is required, and refresh tokens rotate.',
    })}
  </fieldset>`;

const newPage = (root: string, { clientId, nonce, values, faults, alert }: View): string =>
  cardPage(
    'New app',
    html`${alert !== undefined && html`<p class="alert" role="alert">${alert}.</p>`} ${refusedAlert(faults)}
    ${postForm({
      action: `${root}/account/clients`,
      hidden: { nonce, client_id: clientId },
      fields: settingFields(values, faults, html`${kindFields(values)} ${confidentialFields(values)}`),
      submit: 'Create the app',
      cancel: { href: `${root}/account/clients` },
    })}`,
    accountNav(root, 'apps'),
  );

/**
 * The client_id is generated when the form is shown, and the nonce is bound to it: a form submitted twice creates one app,
 * and the second response redirects to its page, which explains how to get a new secret.
 */
export function createNewClient(runtime: Runtime, people: People, appWebhooks: AppWebhooks): FormHandlers {
  const { sql, config } = runtime;
  const { authUrl, oauth } = config;
  const { verified } = people;
  const root = rootOf(authUrl);
  const nonceOf = (session: Session, clientId: string) => verified.nonce(session, ['new client', clientId]);

  const submit = async (request: RawRequest, session: Session): Promise<RawResponse> => {
    const clientId = request.form.get('client_id') ?? '';
    const values = readForm(request.form);
    const settings = parseSettings(values);
    const isPublic = values.is_public === true;
    const client: NewClient = {
      ...settings,
      isPublic,
      declare: appWebhooks.declare,
      clientId,
      trusted: false,
      owner: { userId: session.userId, clientsPerUser: oauth.clientsPerUser },
      isVerified: false,
      origin: originOf(request),
      now: request.now,
    };
    const view = { clientId, nonce: nonceOf(session, clientId), values };
    const asked = { labelOf, asker: `user ${session.userId}` };
    const faults = await urlFaults(appWebhooks, newClientFaults(client, labelOf), settings.webhookUrl, asked);
    if (faults.length > 0) return htmlAnswer(422, newPage(root, { ...view, faults }));
    try {
      const { client_secret: secret = null } = await createClient(sql, client);
      return htmlAnswer(200, secretPage({ root, title: 'App created', clientId, secret }));
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 409) throw error;
      const made = isPublic ? 'made-public' : 'made';
      if (error.faults[0]?.code === 'client_id_taken') return redirectAnswer(`${pathOf(root, clientId)}?done=${made}`);
      return htmlAnswer(409, newPage(root, { ...view, faults: [], alert: error.message }));
    }
  };

  return {
    show: verified.page(async (_request, session) => {
      const clientId = newClientId();
      return htmlAnswer(200, newPage(root, { clientId, nonce: nonceOf(session, clientId), values: {}, faults: [] }));
    }),
    submit: verified.sensitiveForm(({ form }) => ['new client', form.get('client_id') ?? ''], submit),
  };
}
