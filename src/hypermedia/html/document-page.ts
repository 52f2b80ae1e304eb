/**
 * Renders a Document as a page for people, without JavaScript. Error documents embed, by convention, documents named `error` with a
 * `message` for people, and optionally the `field` at fault and a `logref` for the operator.
 */
import type { Document, Naming, Property } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { actionForms, refusedAlert, sentence } from './form.ts';
import { liveAttribute, scriptElements, shell } from '../shell.ts';
import type { View } from '../view.ts';
import { chartsOf } from './charts.ts';
import { collectionOf, collectionPage, part, propertyList, type Collection } from './content.ts';
import { crumbs, hrefOf, linkRow, linkTo, ownPath, programList } from './links.ts';
import { narrowerSearch } from './search-form.ts';
import { badge, isState, isTrue, plainText, stateBadge } from './property-values.ts';
import { inSentence, labelOf, shortTitle } from './words.ts';

function textOf({ properties }: Document, name: string): string | undefined {
  const value = properties.find((property) => property.name === name)?.value;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns the errors of a document; none if it is not an error document. */
function errorsIn({ embedded }: Document): readonly Document[] {
  return embedded.flatMap(({ documents }) => documents.filter(({ name }) => name === 'error'));
}

/** Renders the errors for people; the other properties repeat them for protocols. */
function problemText(errors: readonly Document[]): Markup {
  const references = new Set(errors.flatMap((error) => textOf(error, 'logref') ?? []));
  return html`${errors.map((error) => {
    const message = sentence(textOf(error, 'message') ?? 'An error occurred');
    const field = textOf(error, 'field');
    const isNamed = field === undefined || message.includes(field);
    return html`<p class="alert" role="alert">${message} ${!isNamed && html`<code>${field}</code>`}</p>`;
  })}
  ${references.size > 0 && html`<p class="soft">Reference: <code>${[...references].join(', ')}</code></p>`}`;
}

const NO_VIEW: View = { nav: html``, session: undefined };

const titleOf = (document: Document): string =>
  document.title ?? shortTitle(linkTo(document, 'self')?.title ?? labelOf(document.name));

/** Returns the title of the window: of several pages, the tabs of a browser show only its beginning. */
function windowTitle(document: Document, { store }: View): string {
  const parts = [titleOf(document), linkTo(document, 'webhook')?.crumb, store];
  return [...new Set(parts.filter((text) => text !== undefined))].join(' · ');
}

/** Returns the badges beside the heading: states if the document has any, else whether it is active. */
function badges({ properties }: Document): Markup[] {
  const states = properties.filter(isState);
  if (states.length > 0) return states.map(({ value }) => stateBadge(plainText(value)));
  const active = properties.find(({ name, value }) => name === 'is_active' && value !== null);
  if (active === undefined) return [];
  return [isTrue(active.value) ? badge('Active', 'fine') : badge('Inactive', 'broken')];
}

/** Renders the type of the resource above the heading. */
function kindOf(document: Document): Markup | false {
  const kind = document.called ?? labelOf(document.name);
  const isCalled =
    document.title !== undefined && !document.title.startsWith(kind) && linkTo(document, 'self') !== undefined;
  return isCalled && html`<p class="kind">${kind}</p>`;
}

const heading = (document: Document, naming: Naming): Markup =>
  html`${crumbs(document, naming)} ${kindOf(document)}
    <div class="title">
      <h1>${titleOf(document)}</h1>
      ${badges(document)}
    </div>`;

/** Renders the notice for programmers: the address also returns other formats. */
const footer = ({ name }: Document, naming: Naming): Markup =>
  html`<footer class="soft">
    <p>
      This page as data: request its address with the header <code>Accept</code> for JSON, XML or Siren.<br />
      <a href="${ownPath(`/rels/${encodeURIComponent(name)}`, naming)}">About “${inSentence(name)}”</a>
      <a href="${ownPath('/docs', naming)}">API documentation</a>
    </p>
  </footer>`;

const HEADINGS: ReadonlySet<string> = new Set(['name', 'title', 'email']);

/** Returns whether the heading shows the property already. */
const isHeading = (document: Document, property: Property): boolean =>
  isState(property) || (HEADINGS.has(property.name) && property.value === document.title);

/** Renders how to see what has happened since in a browser without scripts; others renew the page of what waits by themselves. */
export function renewNote(document: Document, naming: Naming): Markup | false {
  const here = hrefOf(linkTo(document, 'self')?.href ?? '', naming);
  if (document.refreshSeconds === undefined || here === undefined) return false;
  return html`<noscript
    ><p class="soft"><a href="${here}">Show what has happened since</a></p></noscript
  >`;
}

/** Renders the important messages of a page. */
export function adviceOf({ advice }: View): Markup | false {
  const paragraphs = advice?.paragraphs ?? [];
  return paragraphs.length > 0 && html`<div class="alert">${paragraphs.map((text) => html`<p>${text}</p>`)}</div>`;
}

type PageParts = {
  document: Document;
  naming: Naming;
  view: View;
  collection: Collection | undefined;
  /** Forms without fields. */
  buttons: readonly Markup[];
};

function content({ document, naming, view, collection, buttons }: PageParts): Markup {
  const title = titleOf(document);
  const links = html`${linkRow(document, naming, 'Related pages')}${chartsOf(view.charts)}`;
  if (collection !== undefined) {
    const canCreate =
      view.session !== undefined &&
      view.refused === undefined &&
      (document.actions?.some(({ method }) => method === 'POST') ?? false);
    return html`<div class="card">
      ${heading(document, naming)} ${links}
      ${collectionPage(document, collection, naming, { label: title, canCreate, liveAddress: view.liveAddress })}
      ${buttons}
    </div>`;
  }
  return html`<div class="card">
      <div ${liveAttribute(document.refreshSeconds)}>
        ${heading(document, naming)}${adviceOf(view)} ${renewNote(document, naming)} ${links}
        ${propertyList(document.properties.filter((property) => !isHeading(document, property)))}
      </div>
      ${programList(document, naming)} ${buttons}
    </div>
    ${document.embedded.map((embedded) => html`<div class="card">${part(embedded, document, naming)}</div>`)}`;
}

const problem = (document: Document, errors: readonly Document[], naming: Naming): Markup =>
  html`<div class="card">
    ${heading(document, naming)} ${problemText(errors)}
    ${linkRow(document, naming, 'Related pages')}${narrowerSearch(document, naming)}
  </div>`;

function whole(document: Document, naming: Naming, view: View): Markup {
  const collection = collectionOf(document);
  const forms = actionForms({ document, naming, view }, collection?.total === 0);
  return html`${refusedAlert({ document, view })} ${forms.refused}
  ${content({ document, naming, view, collection, buttons: forms.buttons })} ${forms.others}`;
}

/** Renders a page whose content is designed for its document: in the same frame, with the message about a completed action. */
export function renderDesigned(page: {
  document: Document;
  naming: Naming;
  view: View;
  main: Markup;
  wide?: boolean;
}): string {
  const { document, naming, view, main, wide = true } = page;
  return shell({
    title: windowTitle(document, view),
    nav: view.nav,
    main: html`${view.done !== undefined && html`<p class="good" role="status">${view.done}</p>`} ${main}`,
    footer: footer(document, naming),
    wide,
    scripts: scriptElements((path) => ownPath(path, naming)),
  });
}

/** Renders the page of a document. `view` is the context of the reader; without it there are no forms. */
export function renderHtml(document: Document, naming: Naming, view: View = NO_VIEW): string {
  const errors = errorsIn(document);
  const isProblem = errors.length > 0;
  const main = isProblem ? problem(document, errors, naming) : whole(document, naming, view);
  return renderDesigned({ document, naming, view, main, wide: !isProblem });
}
