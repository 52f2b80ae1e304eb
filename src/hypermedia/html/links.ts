/** Links for people: as paths, with short titles. */
import type { Document, Link, Naming } from '../document.ts';
import { html, type Markup } from '../markup.ts';
import { harmless, shortened } from './harmless.ts';
import { labelOf, shortTitle } from './words.ts';

const origins = new Map<string, string>();

/** There are as few as there are settings: one, and those that old events were frozen with. */
const originOf = ({ baseUrl }: Naming): string => {
  let origin = origins.get(baseUrl);
  if (origin === undefined) {
    origin = URL.canParse(baseUrl) ? new URL(baseUrl).origin : baseUrl;
    if (origins.size >= 100) origins.clear();
    origins.set(baseUrl, origin);
  }
  return origin;
};

/**
 * Where a link leads from a page: an address of the API as its path, because the same path is a page on the host where
 * pages are served; any other one in full. Undefined where it is none that a browser may follow.
 */
export const hrefOf = (href: string, naming: Naming): string | undefined => {
  // Browsers drop tabs and line ends from an address: `/\t/host` would be `//host`, another host.
  if (/[\s\p{Cc}]/u.test(href)) return undefined;
  const origin = originOf(naming);
  const rest = href.startsWith(origin) ? href.slice(origin.length) : href;
  // A path that begins with two slashes would be the address of another host.
  if (/^\/(?![/\\])/.test(rest)) return rest;
  if (href === origin) return '/';
  return /^https?:\/\//i.test(href) ? href : undefined;
};

/** The path of one of our own addresses, such as `/rels/webhook`. */
export const ownPath = (path: string, naming: Naming): string => hrefOf(naming.baseUrl + path, naming) ?? path;

export const linkTo = (document: Document, rel: string): Link | undefined =>
  document.links.find((link) => link.rel === rel);

/** Told elsewhere on the page: the heading, the pager. */
const OWN: ReadonlySet<string> = new Set(['self', 'curies', 'first', 'prev', 'next', 'last']);

const isForeign = (href: string): boolean => !href.startsWith('/');

export const anchor = (href: string, text: string): Markup =>
  isForeign(href)
    ? html`<a href="${href}" rel="noopener noreferrer nofollow">${harmless(text)}</a>`
    : html`<a href="${href}">${harmless(text)}</a>`;

type Way = { href: string; title: string; short: string; isForPrograms: boolean };

/**
 * Where one can go on. Left out is what a browser cannot follow (templates), what is done by a form of this page, and the way
 * back, which stands above. A link whose type is not HTML is for programs, and one that says so.
 */
const waysOf = (document: Document, naming: Naming): Way[] => {
  const done = new Set(document.actions?.flatMap(({ name, href }) => [name, href]));
  return document.links.flatMap(({ rel, href, title, type, templated, crumb, isForPrograms = false }) => {
    const way = hrefOf(href, naming);
    if (
      OWN.has(rel) ||
      crumb !== undefined ||
      templated === true ||
      way === undefined ||
      done.has(href) ||
      done.has(rel)
    )
      return [];
    const full = title ?? labelOf(rel);
    const isNoPage = type !== undefined && type !== 'text/html';
    return [{ href: way, title: full, short: shortTitle(full), isForPrograms: isForPrograms || isNoPage }];
  });
};

/**
 * The ways on as one row, by their short titles unless two would read the same. `label` makes it a place that one can jump
 * to, which those of a part of the page are not.
 */
export const linkRow = (document: Document, naming: Naming, label?: string): Markup | false => {
  const ways = waysOf(document, naming).filter(({ isForPrograms }) => !isForPrograms);
  if (ways.length === 0) return false;
  const counts = new Map<string, number>();
  for (const { short } of ways) counts.set(short, (counts.get(short) ?? 0) + 1);
  const anchors = ways.map(({ href, title, short }) => anchor(href, counts.get(short) === 1 ? short : title));
  return label === undefined
    ? html`<p class="ways">${anchors}</p>`
    : html`<nav class="ways" aria-label="${label}">${anchors}</nav>`;
};

const CRUMB_CHARACTERS = 40;

/** The way from outside to this place, without the place itself, whose heading follows. */
export const crumbs = ({ links }: Document, naming: Naming): Markup | false => {
  const ways = links.flatMap(({ href, crumb }) => {
    const way = crumb === undefined ? undefined : hrefOf(href, naming);
    return way === undefined || crumb === undefined
      ? []
      : [{ way, text: harmless(shortened(crumb, CRUMB_CHARACTERS)) }];
  });
  if (ways.length === 0) return false;
  return html`<nav class="crumbs" aria-label="The way here">
    ${ways.map(({ way, text }) => html`<a href="${way}">${text}</a>`)}
  </nav>`;
};

/** The addresses that programs use: to read, since a browser that followed them would find nothing to show. */
export const programList = (document: Document, naming: Naming): Markup | false => {
  const ways = waysOf(document, naming).filter(({ isForPrograms }) => isForPrograms);
  if (ways.length === 0) return false;
  return html`<h2>For programs</h2>
    <dl>
      ${ways.map(
        ({ href, title }) =>
          html`<dt>${harmless(title)}</dt>
            <dd><code>${harmless(href)}</code></dd>`,
      )}
    </dl>`;
};
