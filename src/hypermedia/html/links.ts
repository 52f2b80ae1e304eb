/** Renders links as paths with short titles. */
import type { Document, Link, Naming } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { shortened } from '#core/text.ts';
import { labelOf, shortTitle } from './words.ts';

const origins = new Map<string, string>();

/** As few as base URLs: the configured one, and those of old events. */
function originOf({ baseUrl }: Naming): string {
  let origin = origins.get(baseUrl);
  if (origin === undefined) {
    origin = URL.canParse(baseUrl) ? new URL(baseUrl).origin : baseUrl;
    if (origins.size >= 100) origins.clear();
    origins.set(baseUrl, origin);
  }
  return origin;
}

/**
 * Returns the address of a link on a page: a path for addresses of the API, because the same path is a page on the host
 * that serves pages; others in full. Undefined if a browser must not follow it.
 */
export function hrefOf(href: string, naming: Naming): string | undefined {
  // Browsers drop tabs and line ends from addresses: `/\t/host` would be `//host`, another host.
  if (/[\s\p{Cc}]/u.test(href)) return undefined;
  const origin = originOf(naming);
  const rest = href.startsWith(origin) ? href.slice(origin.length) : href;
  // A path that begins with two slashes is the address of another host.
  if (/^\/(?![/\\])/.test(rest)) return rest;
  if (href === origin) return '/';
  return /^https?:\/\//i.test(href) ? href : undefined;
}

/** Returns the path of one of our own addresses, such as `/rels/webhook`. */
export function ownPath(path: string, naming: Naming): string {
  return hrefOf(naming.baseUrl + path, naming) ?? path;
}

export function linkTo(document: Document, rel: string): Link | undefined {
  return document.links.find((link) => link.rel === rel);
}

/** Relations shown elsewhere on the page: heading and pager. */
const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set(['self', 'curies', 'first', 'prev', 'next', 'last']);

const isExternal = (href: string): boolean => !href.startsWith('/');

export function anchor(href: string, text: string): Markup {
  return isExternal(href)
    ? html`<a href="${href}" rel="noopener noreferrer nofollow">${text}</a>`
    : html`<a href="${href}">${text}</a>`;
}

type PageLink = { href: string; title: string; short: string; isForPrograms: boolean };

/**
 * Returns the links of a document without templates, targets of the page's forms, and breadcrumbs. A link whose type is
 * not HTML is for programs.
 */
function pageLinks(document: Document, naming: Naming): PageLink[] {
  const actionTargets = new Set(document.actions?.flatMap(({ name, href }) => [name, href]));
  return document.links.flatMap(({ rel, href, title, type, templated, crumb, isForPrograms = false }) => {
    const path = hrefOf(href, naming);
    if (
      SHOWN_ELSEWHERE.has(rel) ||
      crumb !== undefined ||
      templated === true ||
      path === undefined ||
      actionTargets.has(href) ||
      actionTargets.has(rel)
    )
      return [];
    const full = title ?? labelOf(rel);
    const hasOtherType = type !== undefined && type !== 'text/html';
    return [{ href: path, title: full, short: shortTitle(full), isForPrograms: isForPrograms || hasOtherType }];
  });
}

/**
 * Renders the links in one row, with short titles unless two are equal. With `label` it is a navigation landmark, which
 * the rows within a page are not.
 */
export function linkRow(document: Document, naming: Naming, label?: string): Markup | false {
  const links = pageLinks(document, naming).filter(({ isForPrograms }) => !isForPrograms);
  if (links.length === 0) return false;
  const counts = new Map<string, number>();
  for (const { short } of links) counts.set(short, (counts.get(short) ?? 0) + 1);
  const anchors = links.map(({ href, title, short }) => anchor(href, counts.get(short) === 1 ? short : title));
  return label === undefined
    ? html`<p class="ways">${anchors}</p>`
    : html`<nav class="ways" aria-label="${label}">${anchors}</nav>`;
}

const CRUMB_CHARACTERS = 40;

/** Renders the breadcrumbs, without the page itself, whose heading follows. */
export function crumbs({ links }: Document, naming: Naming): Markup | false {
  const paths = links.flatMap(({ href, crumb }) => {
    const path = crumb === undefined ? undefined : hrefOf(href, naming);
    return path === undefined || crumb === undefined ? [] : [{ path, text: shortened(crumb, CRUMB_CHARACTERS) }];
  });
  if (paths.length === 0) return false;
  return html`<nav class="crumbs" aria-label="Breadcrumbs">
    ${paths.map(({ path, text }) => html`<a href="${path}">${text}</a>`)}
  </nav>`;
}

/** Lists the addresses for programs as text, since browsers cannot show them. */
export function programList(document: Document, naming: Naming): Markup | false {
  const links = pageLinks(document, naming).filter(({ isForPrograms }) => isForPrograms);
  if (links.length === 0) return false;
  return html`<h2>For programs</h2>
    <dl>
      ${links.map(
        ({ href, title }) =>
          html`<dt>${title}</dt>
            <dd><code>${href}</code></dd>`,
      )}
    </dl>`;
}

/** Returns the address of a path with these parameters. */
export function addressWith(path: string, parameters: readonly (readonly [name: string, value: string])[]): string {
  return parameters.length === 0
    ? path
    : `${path}?${new URLSearchParams(parameters.map(([...pair]) => pair)).toString()}`;
}
