/** Renders the pages of operators. `root` is the path prefix of the pages, without a trailing slash. */
import { dataTable } from '#hypermedia/html/data-table.ts';
import { addressWith } from '#hypermedia/html/links.ts';
import { REASON_LENGTH_MAX, Problem } from '#core/problem.ts';
import { countWords, stateWords } from '#dashboard/health-words.ts';
import { postForm } from '#identity/accounts/page-kit.ts';
import type { UserRow } from '#identity/accounts/users-sql.ts';
import type { Client } from '#identity/oauth/clients/clients-sql.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import { select } from '#hypermedia/html/search-form.ts';
import { labelOf } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { neighbours } from '#hypermedia/paging.ts';
import { shell } from '#hypermedia/shell.ts';
import { formatDate } from '#hypermedia/date.ts';
import { briefDateOf, shownDate } from '#hypermedia/shown-date.ts';
import type { StoreRow } from '#stores/stores-sql.ts';
import type { ConnectedProcess } from '#db/activity.ts';
import type { List, ConsoleSearch, ReadStatuses } from './console-reads.ts';
import type { Failing } from '#webhooks/health/health-operations.ts';
import type { Reader } from '#webhooks/readers.ts';
import { NOT_ARRIVED_COUNTED_MAX } from '#webhooks/health/figures.ts';

function consolePath(root: string): string {
  return `${root}/operator`;
}

const PAGES = [
  ['', 'Service'],
  ['/stores', 'Stores'],
  ['/apps', 'Apps'],
  ['/people', 'People'],
  ['/audit', 'Audit'],
] as const;

/** Renders a page with the navigation of operators. */
export function consolePage(root: string, title: string, content: Markup, scripts?: Markup): string {
  return shell({
    title,
    wide: true,
    nav: html`<nav aria-label="Pages of operators">
      ${PAGES.map(
        ([path, text]) =>
          html`<a href="${consolePath(root)}${path}" ${text === title && html`aria-current="page"`}>${text}</a> `,
      )}
      <a href="${root}/account">Account</a>
      <form method="post" action="${root}/sign-out"><button type="submit">Sign out</button></form>
    </nav>`,
    main: html`<h1>${title}</h1>
      ${content}`,
    ...(scripts && { scripts }),
  });
}

type Cells = readonly Markup[];

/** `cells` of a row: the first is its heading. */
export function tableOf(label: string, headings: readonly string[], rows: readonly Cells[]): Markup {
  const columns = headings.map((name) => ({ name }));
  return dataTable(label, columns, rows, { hasRowHeadings: true, isCards: true });
}

export function listPage(
  root: string,
  { path, title, things, by, headings }: List,
  { search, total, rows }: { search: ConsoleSearch; total: number; rows: readonly Cells[] },
  more?: Markup,
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
            ? html`<p>No ${things} match this search.</p>`
            : html`<p class="soft">${total} ${things}</p>
                ${tableOf(title, headings, rows)}`
        }
        <p>${pageLink(first, 'First')} ${pageLink(prev, 'Previous')} ${pageLink(next, 'Next')}</p>
      </div>
      ${more}`,
  );
}

/** Renders the page that says which webhooks read a type of events. `found`: undefined without a search; a text says what is wrong with it. */
export function readersPage(
  root: string,
  text: string,
  found: { readers: readonly Reader[]; isComplete: boolean } | string | undefined,
): string {
  const rows = (readers: readonly Reader[]): readonly Cells[] =>
    readers.map(({ id, storeId, name, isActive, places }) => [
      html`${name}`,
      html`${id}`,
      storeLink(root, { id: storeId, name: String(storeId) }),
      html`${places.join(', ')}`,
      html`${isActive ? 'Yes' : 'No'}`,
    ]);
  return consolePage(
    root,
    'Events',
    html`<div class="card">
      <p>Which webhooks would a change of a type of events affect?</p>
      <form method="get" action="${consolePath(root)}/events" role="search" class="filter">
        <div class="field">
          <label for="q">Type, or type/name of an event, a member or a relation</label>
          <input type="text" id="q" name="q" value="${text}" spellcheck="false" maxlength="255" />
        </div>
        <button type="submit">Search</button>
      </form>
      ${
        typeof found === 'string'
          ? html`<p role="alert">${found}</p>`
          : found !== undefined &&
            (found.readers.length === 0
              ? html`<p>No webhook reads ${text}.</p>`
              : html`<p class="soft">
                    ${found.readers.length}
                    ${found.readers.length === 1 ? 'webhook' : 'webhooks'}${found.isComplete ? '' : ': the first ones. halcyon events uses lists all'}
                  </p>
                  ${tableOf('Webhooks', ['Name', 'ID', 'Store', 'Reads it in', 'Active'], rows(found.readers))}`)
      }
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

/** Returns the date for a cell of a table, in UTC. */
export function cellDate(at: Date): Markup {
  return html`${briefDateOf(formatDate(at, 'UTC'))}`;
}

/** Returns the link to the audit of what the id names; `by`: as in its search. */
export function auditLink(root: string, by: string, id: string | number): Markup {
  return html`<p>
    <a href="${addressWith(`${consolePath(root)}/audit`, Object.entries({ by, q: String(id) }))}">Audit</a>
  </p>`;
}

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
    ['Store', 'Webhook', 'App', 'State', 'Not arrived', 'Waiting', 'Since'],
    failing.map((one) => {
      const { storeId, storeName, name, url, client, notArrived, waiting, since } = one;
      const app = apps.get(client);
      return [
        storeLink(root, { id: storeId, name: storeName }),
        html`${name}<br /><span class="soft">${hostOf(url)}</span>`,
        app === undefined ? html`–` : appLink(root, app),
        badge(...stateWords(one)),
        html`${countWords(notArrived, NOT_ARRIVED_COUNTED_MAX)}`,
        html`${countWords(waiting, NOT_ARRIVED_COUNTED_MAX)}`,
        since === null ? html`–` : cellDate(since),
      ];
    }),
  );
}

const text = (value: string | number | null): Markup => html`${value ?? '–'}`;

const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

function sizeWords(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${fine.format(bytes / 1_000 ** power)} ${UNITS[power]}`;
}

const webhookWords = (count: number): string => (count === 1 ? '1 webhook' : `${countWords(count)} webhooks`);

function databaseRow({ name, status }: Awaited<ReturnType<ReadStatuses>>[number]): Cells {
  if (status === undefined)
    return [html`${name}`, badge('Cannot be read', 'broken'), ...DATABASE_HEADINGS.slice(2).map(() => text(null))];
  const { rates, backlog, sizeBytes, freeBytes } = status;
  const { pending, isEstimate, due, dueSince, held } = backlog;
  return [
    html`${name}`,
    text(rates === undefined ? null : fine.format(rates.published)),
    text(rates === undefined ? null : fine.format(rates.ended)),
    html`${isEstimate && 'about '}${countWords(pending)}`,
    dueSince === null ? html`nothing` : html`${webhookWords(due)}, since ${cellDate(dueSince)}`,
    held === 0 ? html`nothing` : html`${webhookWords(held)}`,
    html`${sizeWords(sizeBytes)}`,
    freeBytes === undefined ? html`–` : html`${sizeWords(freeBytes)}`,
  ];
}

const DATABASE_HEADINGS = [
  'Database',
  'Events per second',
  'Deliveries per second',
  'Deliveries pending',
  'Waiting for Halcyon',
  'Waiting for endpoints',
  'Size',
  'Free disk',
] as const;

/** Renders the state of the databases and of the processes that are connected to the home database. */
export function statusCards(
  databases: Awaited<ReturnType<ReadStatuses>>,
  processes: readonly ConnectedProcess[],
): { databases: Markup; processes: Markup } {
  const seconds = databases.find(({ status }) => status?.rates !== undefined)?.status?.rates?.seconds;
  return {
    databases: html`<div class="card">
      <h2>Databases</h2>
      ${tableOf('Databases', DATABASE_HEADINGS, databases.map(databaseRow))}
      <p class="soft">
        ${
          seconds === undefined
            ? 'Events and deliveries per second are measured from now on: read this page again in ten seconds.'
            : `Events and deliveries per second are averages of the last ${countWords(Math.round(seconds))} seconds.`
        }
      </p>
    </div>`,
    processes: html`<div class="card">
      <h2>Processes</h2>
      ${
        processes.length === 0
          ? html`<p>
              No session has the name of a process of Halcyon: the address of the database sets another
              application_name.
            </p>`
          : tableOf(
              'Processes',
              ['Process', 'Version', 'Roles', 'Address', 'Connected since'],
              processes.map(({ id, version, roles, address, since }) => [
                html`${id}`,
                html`${version}`,
                html`${roles.join(', ')}`,
                text(address),
                cellDate(since),
              ]),
            )
      }
    </div>`,
  };
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

/** Renders a card; with a sentence if its content cannot be read in time, because the search for the reason goes on on the other pages. */
export async function cardOf(heading: string, read: () => Promise<Markup>): Promise<Markup> {
  const content = await read().catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error;
    return html`<p class="alert" role="alert">${error.message}.</p>`;
  });
  return html`<div class="card">
    <h2>${heading}</h2>
    ${content}
  </div>`;
}

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

export function storeFacts({ id, domain, email, dateCreated, isSandbox }: StoreRow): Fact[] {
  return [
    ['ID', text(id)],
    ['Domain', text(domain)],
    ['E-mail', text(email)],
    ['Sandbox', text(isSandbox ? 'Yes' : 'No')],
    ['Created', shownDate(dateCreated)],
  ];
}

export function personFacts({ id, isEmailVerified, dateCreated }: UserRow): Fact[] {
  return [
    ['ID', text(id)],
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
