/** The page of a store's apps: who let which app in, what it may do, its webhooks, and the button that ends its access. */
import type { ShownDocument } from '#http/services.ts';
import { date, enumeration, text, type Document, type Naming } from '#hypermedia/document.ts';
import { collectionOf, pager } from '#hypermedia/html/content.ts';
import { formAround } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf } from '#hypermedia/html/links.ts';
import { renderDesigned, renderHtml } from '#hypermedia/html/document-page.ts';
import { badge, stateBadge } from '#hypermedia/html/property-values.ts';
import { parseAddress, searchPart } from '#hypermedia/html/search-form.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { accessView } from '#identity/oauth/grants.ts';
import type { StoreGrantView } from '#identity/oauth/connected/store-grants.ts';

type Session = NonNullable<View['session']>;

/** Returns the events of a webhook: their names, or the first of them and how many there are. */
function eventWords(events: readonly string[]): string {
  const [first, ...others] = events;
  if (first === undefined) return 'no events';
  return others.length < 3 ? events.join(', ') : `${first} and ${others.length} other events`;
}

function webhookLine(
  { name, address, isActive, isForApp, events }: StoreGrantView['webhooks'][number],
  naming: Naming,
) {
  return html`<dd>
    <a href="${hrefOf(address, naming)}">${name}</a> ${!isActive && badge('Disabled', 'plain')}
    <span class="soft">${isForApp && 'declared by the app: '}${eventWords(events)}</span>
  </dd>`;
}

/** Renders the folded button that disconnects the app, or says who can do that. */
function endPart(app: StoreGrantView, { naming, session }: { naming: Naming; session: Session | undefined }): Markup {
  const { name, by, end, address, own, version, isOfAccount, mayEnd } = app;
  if (own !== null && isOfAccount)
    return html`<p class="soft">
      You gave it access to your whole account. <a href="${hrefOf(own, naming)}">Disconnect it from the account</a>
    </p>`;
  if (isOfAccount)
    return html`<p class="soft">
      Only ${by} can disconnect it, because it has access to the whole account. It has no access to this store any more
      when ${by} is no longer a member.
    </p>`;
  if (!mayEnd || session === undefined)
    return html`<p class="soft">${by} and the owners of the store can disconnect it.</p>`;
  const action = { name: 'delete', title: '', method: 'DELETE', href: address, fields: [] } as const;
  return html`<details class="fold">
    <summary>Disconnect …<span class="unseen"> ${name}</span></summary>
    ${formAround(
      action,
      { naming, session, version },
      html`<p>${end}</p>
        <button type="submit" class="danger" aria-label="Disconnect ${name} of ${by}">Disconnect</button>`,
    )}
  </details>`;
}

function entry(app: StoreGrantView, { naming, session }: { naming: Naming; session: Session | undefined }): Markup {
  const { name, company, isVerified, logo, by, own, permissions, since, lastUsed, ends, webhooks, address } = app;
  return html`<li>
    <div class="who">
      ${logo !== null && html`<img class="logo" src="${logo}" alt="" width="48" height="48" />`}
      <p>
        <strong><a href="${hrefOf(address, naming)}">${name}</a></strong>
        ${!isVerified && stateBadge('unverified')}
        ${company !== null && html`<br /><span class="soft">${company}</span>`}
      </p>
    </div>
    <dl>
      <dt>Connected by</dt>
      <dd>${by}${own !== null && html` <span class="soft">you</span>`}</dd>
      <dt>Since</dt>
      <dd>${shownDateOf(since)}</dd>
      <dt>Last used</dt>
      <dd>${lastUsed === null ? 'Never' : shownDateOf(lastUsed)}</dd>
      ${
        ends !== null &&
        html`<dt>Ends</dt>
          <dd>${shownDateOf(ends)}</dd>`
      }
      <dt>Permissions</dt>
      ${permissions.map((words) => html`<dd>${words}</dd>`)}
      <dt>Its webhooks</dt>
      ${webhooks.length === 0 ? html`<dd>None</dd>` : webhooks.map((webhook) => webhookLine(webhook, naming))}
    </dl>
    ${endPart(app, { naming, session })}
  </li>`;
}

/** Renders the page of one app of a store; undefined for an app of a user. */
export function appPage(
  { document, naming, view }: ShownDocument,
  app: StoreGrantView | undefined,
): string | undefined {
  const main = app && entry(app, { naming, session: view.session });
  const page = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>${app?.name}</h1>
    <ul class="entries">
      ${main}
    </ul>
  </div>`;
  return main && renderDesigned({ document, naming, view, main: page });
}

/** Renders the page of these apps. `root`: the path prefix of the pages of people. */
export function appsPage(
  { document, naming, view }: Omit<ShownDocument, 'now'>,
  { apps, root }: { apps: readonly StoreGrantView[]; root: string },
) {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The apps are no collection');
  const { filters } = parseAddress(document, naming);
  const isPart = filters.length > 0 || apps.length < collection.total;
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>Apps</h1>
    <p class="soft">
      Apps that a member has let into this store. Each may do what its permissions say, until it is disconnected. A
      program of your own gets tokens on the page of <a href="${root}/account/clients">your app</a>.
    </p>
    ${isPart && searchPart(document, naming)}
    ${
      apps.length === 0
        ? html`<p>No app has access to this store.</p>`
        : html`<ul class="entries">
            ${apps.map((app) => entry(app, { naming, session: view.session }))}
          </ul>`
    }
    ${pager(document, collection, naming)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}

/** Returns the Document of an access with the properties that a person reads. */
function readableAccess(document: Document): Document {
  const access = accessView.of(document);
  if (access === undefined) return document;
  const { company, isUnverified, reach, permissions, since, lastUsed, ends, webhooks } = access;
  const allowed = permissions.join('. ');
  return {
    ...document,
    ...(document.name === 'grant' && { called: 'Connected app' }),
    properties: [
      text('name', document.title ?? reach),
      ...(isUnverified ? [enumeration('state', 'unverified')] : []),
      ...(company === null ? [] : [text('company', company)]),
      ...(document.title === reach ? [] : [text('access_to', reach)]),
      { ...text('permissions', allowed), cell: html`${allowed}` },
      text('webhooks', webhooks),
      date('since', since),
      date.orNull('last_used', lastUsed),
      ...(ends === null ? [] : [date('ends', ends)]),
    ],
  };
}

/** Renders the generic page of an access, or of a list of them, with the properties that a person reads; undefined for another document. */
export function accessPage({ document, naming, view }: ShownDocument): string | undefined {
  const own = readableAccess(document);
  const embedded = own.embedded.map((part) => ({ ...part, documents: part.documents.map(readableAccess) }));
  return renderHtml({ ...own, embedded }, naming, view);
}
