/** The pages of /authorize, as text: who asks, for what, and the picker of a store; or why nothing can be asked. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { Fault } from '../errors.ts';
import type { PickableStore } from './queries.ts';
import { shownHost } from '../redirect-uri.ts';

export type ConsentView = {
  request: AuthorizationRequest;
  email: string;
  stores: readonly PickableStore[];
  nonce: string;
  /** Where the form goes: this address again, with the client's parameters in it. */
  action: string;
  switchUser: string;
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

const LIMITS = 'It never sees your password, and cannot change your e-mail address or how you sign in.';

const choice = (store: PickableStore, isChosen: boolean): Markup =>
  html`<label class="choice">
    <input type="radio" name="store" value="${store.id}" required ${isChosen && html`checked`} />
    <span>${store.name} <span class="soft">${store.domain}</span></span>
  </label>`;

/** A single store is chosen already; of several the one that the client asked for, if it is among them. */
const picker = ({ request, stores }: ConsentView): Markup => {
  const preselected = stores.length === 1 ? stores[0]?.id : request.scope.storeId;
  return html`<fieldset>
    <legend>Which store?</legend>
    ${stores.map((store) => choice(store, store.id === preselected))}
  </fieldset>`;
};

const decision = (view: ConsentView): Markup => {
  const needsStore = view.request.scope.scope === 'store_full_access';
  const isPossible = !needsStore || view.stores.length > 0;
  return html`<form method="post" action="${view.action}">
    <input type="hidden" name="nonce" value="${view.nonce}" />
    ${needsStore && isPossible && picker(view)}
    ${
      !isPossible &&
      html`<p class="alert" role="alert">
        You have no store that ${view.request.client.name} could be let into. Ask a store's owner to make you a member,
        or sign in as someone else.
      </p>`
    }
    <div class="buttons">
      ${isPossible && html`<button type="submit" name="decision" value="allow">Allow</button>`}
      <button type="submit" name="decision" value="deny" class="quiet" formnovalidate>Deny</button>
    </div>
  </form>`;
};

export const consentPage = (view: ConsentView): string => {
  const { client, redirectUri, scope } = view.request;
  return shell({
    title: `Let ${client.name} in?`,
    aside: html`<span class="soft">${view.email}</span>`,
    main: html`<div class="card">
      <h1>Let ${client.name} in?</h1>
      ${view.alert !== undefined && html`<p class="alert" role="alert">${view.alert}</p>`}
      ${client.description !== null && html`<p>${client.description}</p>`}
      <dl>
        ${
          client.company !== null &&
          html`<dt>Made by</dt>
            <dd>${client.company}</dd>`
        }
        <dt>Sends you to</dt>
        <dd>${shownHost(redirectUri)}</dd>
        <dt>Signed in as</dt>
        <dd>${view.email} (<a href="${view.switchUser}">someone else?</a>)</dd>
      </dl>
      <p>If you allow it, ${client.name} can:</p>
      <ul>
        ${abilities[scope.scope].map((ability) => html`<li>${ability}</li>`)}
      </ul>
      <p class="soft">${LIMITS}</p>
      ${decision(view)}
    </div>`,
  });
};

/** For the person it says that nothing happened, for the app's developer what is wrong. */
export const refusalPage = (fault: Fault): string =>
  shell({
    title: 'This request cannot be used',
    main: html`<div class="card">
      <h1>This request cannot be used</h1>
      <p class="alert" role="alert">${fault.description}</p>
      <p>
        The app that sent you here made a mistake. Nothing was shared with it. You can go back, and tell its makers what
        this page says.
      </p>
      <p class="soft">Error code: <code>${fault.error}</code></p>
    </div>`,
  });
