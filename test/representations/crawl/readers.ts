/** What a client of each format sees in an answer: links, and how it would write a body. Written apart from the renderers. */
import { XMLParser } from 'fast-xml-parser';

export type Seen = { rel: string; href: string };
export type Values = Readonly<Record<string, string | readonly string[]>>;

export type Reader = {
  name: string;
  accept: string;
  contentType: string;
  /** Links, templated ones left out; `rel` without a prefix, empty where the format has none. */
  linksIn: (text: string) => Seen[];
  bodyOf: (values: Values) => string;
};

type Json = { readonly [name: string]: unknown };
const listOf = (value: unknown): Json[] =>
  (Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]) as Json[];

/** `svc:webhooks` and `…/rels/webhooks` both name `webhooks`. */
const nameOf = (rel: string): string => rel.replace(/^.*\/rels\//, '').replace(/^[\w-]+:/, '');

const halLinks = (object: Json): Seen[] => [
  ...Object.entries((object['_links'] ?? {}) as Json).flatMap(([rel, links]) =>
    listOf(links)
      .filter((link) => link['templated'] !== true)
      .map((link) => ({ rel: nameOf(rel), href: String(link['href']) })),
  ),
  ...Object.entries((object['_embedded'] ?? {}) as Json).flatMap(([rel, children]) => [
    { rel: nameOf(rel), href: '' },
    ...listOf(children).flatMap(halLinks),
  ]),
];

const sirenLinks = (entity: Json): Seen[] => [
  ...listOf(entity['links']).flatMap((link) =>
    (link['rel'] as string[]).map((rel) => ({ rel: nameOf(rel), href: String(link['href']) })),
  ),
  ...listOf(entity['entities']).flatMap((child) => [
    ...(child['rel'] as string[]).map((rel) => ({ rel: nameOf(rel), href: String(child['href'] ?? '') })),
    ...sirenLinks(child),
  ]),
];

const xmlParser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '@', processEntities: true });

const xmlLinks = (element: Json): Seen[] => [
  ...listOf(element['link'])
    .filter((link) => typeof link === 'object' && link['@templated'] !== 'true')
    .map((link) => ({ rel: nameOf(String(link['@rel'])), href: String(link['@href']) })),
  ...listOf(element['resource'])
    .filter((child) => typeof child === 'object' && child['@rel'] !== undefined)
    .flatMap((child) => [
      { rel: nameOf(String(child['@rel'])), href: String(child['@href'] ?? '') },
      ...xmlLinks(child),
    ]),
];

const unescape = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&amp;', '&');

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

const xmlBody = (values: Values): string => {
  const elements = Object.entries(values).flatMap(([name, value]) =>
    [value].flat().map((one) => `<${name}>${escapeXml(String(one))}</${name}>`),
  );
  return `<?xml version="1.0" encoding="UTF-8"?><resource>${elements.join('')}</resource>`;
};

const formBody = (values: Values): string => {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) for (const one of [value].flat()) form.append(name, String(one));
  return form.toString();
};

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
