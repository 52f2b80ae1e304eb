/** Renders the pages of operators. `root` is the path prefix of the pages, without a trailing slash. */
import { addressWith } from '#hypermedia/html/links.ts';
import { REASON_LENGTH_MAX } from '#core/suspension.ts';
import { postForm } from '#identity/accounts/page-kit.ts';
import type { UserRow } from '#identity/accounts/users-sql.ts';
import type { Client } from '#identity/oauth/clients/clients-sql.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import { select } from '#hypermedia/html/search-form.ts';
import { inSentence, labelOf } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { neighbours, type Page } from '#hypermedia/paging.ts';
import { shell } from '#hypermedia/shell.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { StoreRow } from '#stores/stores-sql.ts';
import type { Failing } from '#webhooks/health/failing.ts';
import { NOT_ARRIVED_COUNTED_MAX } from '#webhooks/health/figures.ts';

function consolePath(root: string): string {
  return `${root}/operator`;
}

/** Renders a page with the navigation of operators. */
export function consolePage(root: string, title: string, content: Markup): string {
  const link = (path: string, text: string): Markup => html`<a href="${consolePath(root)}${path}">${text}</a>`;
  return shell({
    title,
    wide: true,
    nav: html`<nav aria-label="Pages of operators">
      ${link('', 'What fails now')} ${link('/stores', 'Stores')} ${link('/apps', 'Apps')} ${link('/people', 'People')}
      <a href="${root}/account">Account</a>
      <form method="post" action="${root}/sign-out"><button type="submit">Sign out</button></form>
    </nav>`,
    main: html`<h1>${title}</h1>
      ${content}`,
  });
}

/** `cells` of a row: the first is its heading. */
function tableOf(label: string, headings: readonly string[], rows: readonly (readonly Markup[])[]): Markup {
  return html`<section class="table" tabindex="0" aria-label="${label}">
    <table>
      <thead>
        <tr>
          ${headings.map((heading) => html`<th scope="col">${heading}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ([first, ...cells]) =>
            html`<tr>
              <th scope="row">${first}</th>
              ${cells.map((cell) => html`<td>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

/** A list of the console that is searched by one property at a time. */
export type List = { path: string; title: string; by: readonly string[]; headings: readonly string[] };

export type Search = { by: string; text: string; page: Page };

export function listPage(
  root: string,
  { path, title, by, headings }: List,
  { search, total, rows }: { search: Search; total: number; rows: readonly (readonly Markup[])[] },
): string {
  const at = `${consolePath(root)}/${path}`;
  const { first, prev, next } = neighbours(search.page, total);
  const pageLink = (offset: number, text: string): Markup | false => {
    const query = { by: search.by, q: search.text, limit: String(search.page.limit), offset: String(offset) };
    return offset !== search.page.offset && html`<a href="${addressWith(at, Object.entries(query))}">${text}</a> `;
  };
  return consolePage(
    root,
    title,
    html`<div class="card">
      <form method="get" action="${at}" role="search" class="filter">
        <div class="field">
          <label for="by">Search by</label>
          ${select(
            'by',
            'by',
            search.by,
            by.map((name) => [name, labelOf(name)]),
          )}
        </div>
        <div class="field">
          <label for="q">Text</label>
          <input type="text" id="q" name="q" value="${search.text}" spellcheck="false" maxlength="255" />
        </div>
        <button type="submit">Search</button>
      </form>
      ${
        rows.length === 0
          ? html`<p>No ${inSentence(title)} match this search.</p>`
          : html`<p class="soft">${total} ${inSentence(title)}</p>
              ${tableOf(title, headings, rows)}`
      }
      <p>${pageLink(first, 'First')} ${pageLink(prev, 'Previous')} ${pageLink(next, 'Next')}</p>
    </div>`,
  );
}

export function storeLink(root: string, { id, name }: { id: number; name: string }): Markup {
  return html`<a href="${consolePath(root)}/stores/${id}">${name}</a>`;
}

export function appLink(root: string, { clientId, name }: Pick<Client, 'clientId' | 'name'>): Markup {
  return html`<a href="${consolePath(root)}/apps/${encodeURIComponent(clientId)}">${name}</a>`;
}

export function personLink(root: string, { id, email }: Pick<UserRow, 'id' | 'email'>): Markup {
  return html`<a href="${consolePath(root)}/people/${id}">${email}</a>`;
}

const counted = (count: number): string =>
  count >= NOT_ARRIVED_COUNTED_MAX ? `${NOT_ARRIVED_COUNTED_MAX} or more` : String(count);

/** The path and the query of a url may have secrets. */
const hostOf = (url: string | null): string => (url === null ? '' : new URL(url).host);

/** `apps` by their internal ids. */
export function failingTable(
  root: string,
  label: string,
  { failing, apps }: { failing: readonly Failing[]; apps: ReadonlyMap<number | null, Client> },
): Markup {
  return tableOf(
    label,
    ['Store', 'Webhook', 'Host', 'App', 'State', 'Not arrived', 'Waiting', 'Since'],
    failing.map(({ storeId, storeName, name, url, client, isActive, notArrived, waiting, since }) => {
      const app = apps.get(client);
      return [
        storeLink(root, { id: storeId, name: storeName }),
        html`${name}`,
        html`${hostOf(url)}`,
        app === undefined ? html`–` : appLink(root, app),
        isActive ? badge('Active', 'plain') : badge('Inactive', 'broken'),
        html`${counted(notArrived)}`,
        html`${counted(waiting)}`,
        since === null ? html`–` : shownDate(since),
      ];
    }),
  );
}

/** `name`: of what is suspended; `reason`: why it is, null if it is not. `fault`: of the reason that was entered. */
type SuspensionView = {
  at: string;
  what: keyof typeof EFFECTS;
  name: string;
  reason: string | null;
  nonce: string;
  fault: string | undefined;
};

/** What a suspension does, and what its end brings back. */
export const EFFECTS = {
  app:
    'Its tokens and secrets are refused at once, no person can connect it, and its webhooks in all stores are disabled: their pending deliveries ' +
    'fail. The end of the suspension enables these webhooks and makes its tokens valid again; a recovery sends what a webhook missed.',
  person:
    'Their sessions end at once, they cannot sign in or reset the password, the access that they gave to apps is refused, and the webhooks that ' +
    'these apps created for them are disabled. The end of the suspension lets them sign in and makes the access valid again; the webhooks ' +
    'stay disabled until they are enabled. Stores and other members keep theirs.',
  store:
    'Its members and apps are refused at once, and all its webhooks are disabled: their pending deliveries fail. The platform still publishes ' +
    'its events, and they are kept. The end of the suspension enables these webhooks and makes the access valid again; a recovery sends what ' +
    'a webhook missed.',
} as const;
const READERS = {
  app: 'Its developer and its users read it',
  person: 'The person reads it at the sign-in',
  store: 'Its members and apps read it',
} as const;

/** Renders the form that suspends something, or ends its suspension. */
export function suspensionCard({ at, what, name, reason, nonce, fault }: SuspensionView): Markup {
  if (reason !== null)
    return html`<div class="card">
      <h2>Suspended</h2>
      <p>${reason}</p>
      ${postForm({ action: at, hidden: { nonce, act: 'resume' }, submit: `End the suspension of ${name}` })}
    </div>`;
  return html`<div class="card">
    <h2>Suspend</h2>
    <p>${EFFECTS[what]}</p>
    ${postForm({
      action: at,
      hidden: { nonce, act: 'suspend' },
      fields: html`<div class="field">
        <label for="reason">Reason</label>
        <input
          type="text"
          id="reason"
          name="reason"
          maxlength="${REASON_LENGTH_MAX}"
          required
          ${fault !== undefined && html`aria-invalid="true"`}
          aria-describedby="reason-hint"
        />
        <p class="soft" id="reason-hint">One line. ${READERS[what]}.</p>
        ${fault !== undefined && html`<p class="fault" role="alert">${fault}.</p>`}
      </div>`,
      submit: `Suspend ${name}`,
      style: 'danger',
    })}
  </div>`;
}

type Fact = readonly [name: string, value: Markup];

export function factsCard(facts: readonly Fact[], ...more: readonly (Markup | false)[]): Markup {
  return html`<div class="card">
    <dl>
      ${facts.map(
        ([name, value]) =>
          html`<dt>${name}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
    ${more}
  </div>`;
}

const text = (value: string | number | null): Markup => html`${value ?? '–'}`;

export function storeFacts({ id, domain, email, dateCreated, isSandbox }: StoreRow): Fact[] {
  return [
    ['Id', text(id)],
    ['Domain', text(domain)],
    ['E-mail', text(email)],
    ['Sandbox', text(isSandbox ? 'Yes' : 'No')],
    ['Created', shownDate(dateCreated)],
  ];
}

export function personFacts({ id, isEmailVerified, dateCreated }: UserRow): Fact[] {
  return [
    ['Id', text(id)],
    ['E-mail verified', text(isEmailVerified ? 'Yes' : 'No')],
    ['Created', shownDate(dateCreated)],
  ];
}

export function appFacts({ clientId, company, contact, ownerId, isVerified, dateCreated }: Client): Fact[] {
  return [
    ['Client ID', html`<code>${clientId}</code>`],
    ['Company', text(company)],
    ['Contact', text(contact)],
    ['Owner', text(ownerId)],
    ['Verified', text(isVerified ? 'Yes' : 'No')],
    ['Created', shownDate(dateCreated)],
  ];
}
