/** The page of /authorize: who asks, for what, and the picker of a store. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { logoImage } from '../clients/logo/logo.ts';
import { shownHost } from '../redirect-uri.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { PickableStore } from './authorize-sql.ts';

export type ConsentView = {
  request: AuthorizationRequest;
  email: string;
  stores: readonly PickableStore[];
  /** Webhooks of the app that are off because its access ended, by store. */
  stopped: ReadonlyMap<number, number>;
  nonce: string;
  /** Where the form goes: this address again, with the client's parameters in it. */
  action: string;
  switchUser: string;
  /** The path under which the pages live, without a slash at its end. */
  root: string;
  alert: string | undefined;
};

const abilities = {
  store_full_access: [
    'See and change everything in the store that you choose: its customers, subscriptions, transactions and webhooks',
    'Have news of the store sent to addresses of its own',
    'Go on doing so until you take the access back',
  ],
  user_full_access: [
    'See your account and work in all of your stores as you can: customers, subscriptions, transactions and webhooks',
    'Have news of these stores sent to addresses of its own',
    'Go on doing so until you take the access back',
  ],
} as const;

const limits = {
  store_full_access: ['Reach any other store of yours', 'See your password, or change how you sign in'],
  user_full_access: [
    'See your password, or change your e-mail address or how you sign in',
    'See the secrets of your apps',
  ],
} as const;

/** What the list of stores shows at once, about. */
const UNSCROLLED_STORES = 5;

/** A name that somebody else chose, kept from turning the direction of the text around it. */
const isolated = (text: string): Markup => html`<bdi>${text}</bdi>`;

const choice = (store: PickableStore, isChosen: boolean): Markup =>
  html`<label class="choice">
    <input type="radio" name="store" value="${store.id}" required ${isChosen && html`checked`} />
    <span>${isolated(store.name)} <span class="soft">${store.domain}</span></span>
  </label>`;

/**
 * A single store is chosen already; of several the one that the client asked for, if it is among them. That one stands
 * first, where it is seen: the list of somebody with many stores scrolls.
 */
const picker = ({ request, stores }: ConsentView): Markup => {
  const preselected = stores.length === 1 ? stores[0]?.id : request.scope.storeId;
  const [first, rest] = [stores.filter(({ id }) => id === preselected), stores.filter(({ id }) => id !== preselected)];
  return html`<fieldset>
    <legend>Which store?</legend>
    ${stores.length > UNSCROLLED_STORES && html`<p class="soft">You have ${stores.length}; the list scrolls.</p>`}
    <div class="choices">${first.map((store) => choice(store, true))} ${rest.map((store) => choice(store, false))}</div>
  </fieldset>`;
};

const webhooks = (count: number): string => (count === 1 ? '1 webhook' : `${count} webhooks`);

/** Offered unchecked: the addresses of these webhooks were chosen under the access that ended. */
const resumption = ({ request, stores, stopped }: ConsentView): Markup => {
  const names = stores.flatMap(({ id, name }) =>
    stopped.has(id) ? [html`${isolated(name)}: ${webhooks(stopped.get(id) ?? 0)}`] : [],
  );
  const total = stopped.values().reduce((sum, count) => sum + count, 0);
  return html`<label class="choice">
    <input type="checkbox" name="resume" value="1" />
    <span>
      Switch on again the webhooks of ${isolated(request.client.name)} that were switched off when its access ended
      <span class="soft">${names.length > 1 ? names.map((name) => html`${name}. `) : webhooks(total)}</span>
    </span>
  </label>`;
};

const needsStore = ({ request }: ConsentView): boolean => request.scope.scope === 'store_full_access';

const isPossible = (view: ConsentView): boolean => !needsStore(view) || view.stores.length > 0;

const noStore = ({ request, switchUser }: ConsentView): Markup =>
  html`<p class="alert" role="alert">
    You have no store that ${isolated(request.client.name)} could be let into. Ask a store's owner to make you a member,
    or <a href="${switchUser}">sign in as someone else</a>.
  </p>`;

const powers = ({ request }: ConsentView): Markup => {
  const { scope } = request.scope;
  return html`<h2>If you allow it, this app can</h2>
    <ul>
      ${abilities[scope].map((ability) => html`<li>${ability}</li>`)}
    </ul>
    <h2>It can never</h2>
    <ul>
      ${limits[scope].map((limit) => html`<li>${limit}</li>`)}
    </ul>`;
};

const decision = (view: ConsentView): Markup =>
  html`<form method="post" action="${view.action}">
    <input type="hidden" name="nonce" value="${view.nonce}" />
    ${needsStore(view) && isPossible(view) && picker(view)}
    ${isPossible(view) && view.stopped.size > 0 && resumption(view)}
    <div class="buttons">
      ${isPossible(view) && html`<button type="submit" name="decision" value="allow">Allow</button>`}
      <button type="submit" name="decision" value="deny" class="quiet" formnovalidate>Deny</button>
    </div>
  </form>`;

const UNVERIFIED = html`<p>
  <span class="badge">Unverified</span> Nobody here has looked at who is behind this app. Go on only if you were just
  using it and know the address that it sends you to.
</p>`;

const facts = ({ request, email, switchUser }: ConsentView): Markup => {
  const { company } = request.client;
  return html`<dl>
    ${
      company !== null &&
      html`<dt>Made by</dt>
        <dd>${isolated(company)}</dd>`
    }
    <dt>Sends you to</dt>
    <dd><strong>${shownHost(request.redirectUri)}</strong></dd>
    <dt>Signed in as</dt>
    <dd>${email} (<a href="${switchUser}">someone else?</a>)</dd>
  </dl>`;
};

export const consentPage = (view: ConsentView): string => {
  const { client } = view.request;
  return shell({
    title: `Let ${client.name} in?`,
    main: html`<div class="card">
      <div class="who">
        ${logoImage(view.root, client)}
        <h1>Let ${isolated(client.name)} in?</h1>
      </div>
      ${view.alert !== undefined && html`<p class="alert" role="alert">${view.alert}</p>`}
      ${!isPossible(view) && noStore(view)}
      ${client.description !== null && html`<p>${isolated(client.description)}</p>`} ${!client.isVerified && UNVERIFIED}
      ${facts(view)} ${isPossible(view) && powers(view)} ${decision(view)}
    </div>`,
  });
};
