/** What a client of each format sees in a response: links, and how it writes a body. Independent of the renderers. */
import { XMLParser } from 'fast-xml-parser';

export type Seen = { rel: string; href: string };
export type Values = Readonly<Record<string, string | readonly string[]>>;

export type Reader = {
  name: string;
  accept: string;
  contentType: string;
  /** Links without templated ones; `rel` without a prefix, empty if the format has none. */
  linksIn: (text: string) => Seen[];
  bodyOf: (values: Values) => string;
};

type Json = { readonly [name: string]: unknown };
const listOf = (value: unknown): Json[] =>
  (Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]) as Json[];

/** `svc:webhooks` and `…/rels/webhooks` both name `webhooks`. */
const nameOf = (rel: string): string => rel.replace(/^.*\/rels\//, '').replace(/^[\w-]+:/, '');

const seen = (rel: unknown, href: unknown): Seen => ({
  rel: nameOf(String(rel)),
  href: typeof href === 'string' ? href : '',
});

function halLinks(object: Json): Seen[] {
  const found: Seen[] = [];
  for (const [rel, links] of Object.entries((object['_links'] ?? {}) as Json)) {
    for (const link of listOf(links)) if (link['templated'] !== true) found.push(seen(rel, link['href']));
  }
  for (const [rel, children] of Object.entries((object['_embedded'] ?? {}) as Json)) {
    found.push(seen(rel, ''));
    for (const child of listOf(children)) found.push(...halLinks(child));
  }
  return found;
}

function sirenLinks(entity: Json): Seen[] {
  const found: Seen[] = [];
  for (const link of listOf(entity['links']))
    for (const rel of listOf(link['rel'])) found.push(seen(rel, link['href']));
  for (const child of listOf(entity['entities'])) {
    for (const rel of listOf(child['rel'])) found.push(seen(rel, child['href']));
    found.push(...sirenLinks(child));
  }
  return found;
}

const xmlParser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '@', processEntities: true });

function xmlLinks(element: Json): Seen[] {
  const found: Seen[] = [];
  for (const link of listOf(element['link'])) {
    if (typeof link === 'object' && link['@templated'] !== 'true') found.push(seen(link['@rel'], link['@href']));
  }
  for (const child of listOf(element['resource'])) {
    if (typeof child === 'object' && child['@rel'] !== undefined) {
      found.push(seen(child['@rel'], child['@href']), ...xmlLinks(child));
    }
  }
  return found;
}

const unescape = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&amp;', '&');

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function xmlBody(values: Values): string {
  const elements = Object.entries(values).flatMap(([name, value]) =>
    [value].flat().map((one) => `<${name}>${escapeXml(one)}</${name}>`),
  );
  return `<?xml version="1.0" encoding="UTF-8"?><resource>${elements.join('')}</resource>`;
}

function formBody(values: Values): string {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) for (const one of [value].flat()) form.append(name, one);
  return form.toString();
}

export const readers: readonly Reader[] = [
  {
    name: 'HAL',
    accept: 'application/hal+json',
    contentType: 'application/hal+json',
    linksIn: (text) => halLinks(JSON.parse(text) as Json),
    bodyOf: (values) => JSON.stringify(values),
  },
  {
    name: 'XML',
    accept: 'application/hal+xml',
    contentType: 'application/xml',
    linksIn: (text) => xmlLinks((xmlParser.parse(text) as { resource: Json }).resource),
    bodyOf: xmlBody,
  },
  {
    name: 'Siren',
    accept: 'application/vnd.siren+json',
    contentType: 'application/json',
    linksIn: (text) => sirenLinks(JSON.parse(text) as Json),
    bodyOf: (values) => JSON.stringify(values),
  },
  {
    name: 'HTML',
    accept: 'text/html',
    contentType: 'application/x-www-form-urlencoded',
    linksIn: (text) =>
      [...text.matchAll(/<a\b[^>]*\bhref="([^"#][^"]*)"/g)].map(([, href = '']) => ({ rel: '', href: unescape(href) })),
    bodyOf: formBody,
  },
];
