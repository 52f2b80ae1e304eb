/**
 * Lists the content of a response, a line for each property, link and embedded resource, so that responses in different formats
 * can be compared. HAL is listed with what the other format has of it, as docs/xml.md and the Siren specification describe.
 */
import assert from 'node:assert/strict';
import { XMLParser } from 'fast-xml-parser';
import type { SirenEntity } from 'siren-parser';

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };
type Link = { href: string; title?: string; type?: string; templated?: boolean; name?: string };
type Hal = {
  readonly _links?: Readonly<Record<string, Link | readonly Link[]>>;
  readonly _embedded?: Readonly<Record<string, Hal | readonly Hal[] | null>>;
  readonly [property: string]: unknown;
};

/** `address`: an attribute of XML, which repeats the link `self`. Order matters only among things with the same name. */
type Content = {
  address?: string | undefined;
  links: (readonly [rel: string, link: Link])[];
  embedded: (readonly [rel: string, content: Content])[];
  properties: (readonly [name: string, value: unknown])[];
};

const listOf = <T>(value: T | readonly T[] | null | undefined): readonly T[] =>
  value === null || value === undefined ? [] : Array.isArray(value) ? (value as readonly T[]) : [value as T];

function linesWithin({ address, links, embedded, properties }: Content, place: string): (readonly [string, string])[] {
  const counts = new Map<string, number>();
  return [
    ...(address === undefined ? [] : [[place, `${place} at ${address}`] as const]),
    ...links.map(([rel, { href, title, type, templated, ...others }]) => {
      const at = `${place} link ${rel}`;
      return [at, `${at} ${JSON.stringify({ href, title, type, templated, ...others })}`] as const;
    }),
    ...embedded.flatMap(([rel, content]) => {
      const at = counts.get(rel) ?? 0;
      counts.set(rel, at + 1);
      const child = `${place}/${rel}[${at}]`;
      return [[child, child] as const, ...linesWithin(content, child)];
    }),
    ...properties.map(([name, value]) => {
      const at = `${place} property ${name}`;
      return [at, `${at} ${JSON.stringify(value)}`] as const;
    }),
  ];
}

/** Sorted by place; things at the same place keep their order. */
const linesOf = (content: Content): string[] =>
  linesWithin(content, '')
    .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([, line]) => line);

type Form = {
  relOf: (rel: string) => string;
  hasLink: (rel: string, link: Link, isRoot: boolean) => boolean;
  hasAddress?: true;
  valueOf: (name: string, value: Json) => unknown;
};

function halContent({ _links = {}, _embedded = {}, ...properties }: Hal, form: Form, isRoot = true): Content {
  const [self] = listOf(_links['self']);
  return {
    ...(form.hasAddress && { address: self?.href }),
    links: Object.entries(_links).flatMap(([rel, links]) =>
      listOf(links).flatMap((link) => (form.hasLink(rel, link, isRoot) ? [[form.relOf(rel), link] as const] : [])),
    ),
    embedded: Object.entries(_embedded).flatMap(([rel, children]) =>
      listOf(children).map((child) => [form.relOf(rel), halContent(child, form, false)] as const),
    ),
    properties: Object.entries(properties).map(([name, value]) => [name, form.valueOf(name, value as Json)] as const),
  };
}

/** An element's text, or its elements by name; an element of an array within an array has no name. */
type Element = string | { [name: string]: Element[] };

const NO_NAME = '[]';

/** Returns the elements of a member: one for each item of an array, and an empty one for an empty array. */
const elementsOf = (value: Json): Element[] =>
  Array.isArray(value) && value.length > 0 ? (value as readonly Json[]).map(elementOf) : [elementOf(value)];

function elementOf(value: Json): Element {
  if (value === null) return '';
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return value.length === 0 ? '' : { [NO_NAME]: (value as readonly Json[]).map(elementOf) };
  const members = Object.entries(value);
  return members.length === 0 ? '' : Object.fromEntries(members.map(([name, member]) => [name, elementsOf(member)]));
}

const ATTRIBUTES = ':@';
const TEXT = '#text';

type XmlNode = { readonly [name: string]: readonly XmlNode[] | string };

const xmlParser = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  trimValues: false,
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: true,
  htmlEntities: true,
  ignoreDeclaration: true,
});

function readNode(node: XmlNode): { name: string; own: Readonly<Record<string, string>>; within: readonly XmlNode[] } {
  const name = Object.keys(node).find((key) => key !== ATTRIBUTES) ?? '';
  const within = node[name];
  assert.ok(Array.isArray(within), `text beside elements: ${JSON.stringify(node)}`);
  return { name, own: (node[ATTRIBUTES] ?? {}) as Readonly<Record<string, string>>, within };
}

function textOf({ [TEXT]: text }: XmlNode): string {
  assert.ok(typeof text === 'string', 'an element has either a text or elements');
  return text;
}

function readElement(node: XmlNode): readonly [name: string, element: Element] {
  const { name, own, within } = readNode(node);
  const named = name === 'member' ? (own['name'] ?? NO_NAME) : name;
  if (within.length === 0) return [named, ''];
  if (within.some((child) => TEXT in child)) {
    const text = within.map(textOf).join('');
    return [named, own['encoding'] === 'base64' ? Buffer.from(text, 'base64').toString() : text];
  }
  return [named, readElements(within)];
}

function readElements(nodes: readonly XmlNode[]): { [name: string]: Element[] } {
  const elements: { [name: string]: Element[] } = {};
  for (const [name, element] of nodes.map(readElement)) (elements[name] ??= []).push(element);
  return elements;
}

function xmlContent({ own, within }: ReturnType<typeof readNode>): Content {
  const content: Content = { address: own['href'], links: [], embedded: [], properties: [] };
  const properties: XmlNode[] = [];
  for (const node of within) {
    const { name, own: attributes, within: children } = readNode(node);
    const { rel, href = '', templated, ...rest } = attributes;
    if (rel === undefined) properties.push(node);
    else if (name === 'resource') content.embedded.push([rel, xmlContent({ name, own: attributes, within: children })]);
    else {
      assert.deepEqual([name, children], ['link', []]);
      content.links.push([rel, { ...rest, href, ...(templated !== undefined && { templated: templated === 'true' }) }]);
    }
  }
  content.properties = Object.entries(readElements(properties));
  return content;
}

/** Returns the lines of an XML answer, and those of HAL as XML: values are texts, and `curies` are only in the root. */
export function xmlAndHal(xml: string, hal: string): [xml: string[], hal: string[]] {
  const [root, ...others] = xmlParser.parse(xml) as XmlNode[];
  assert.ok(root !== undefined);
  assert.deepEqual(others, []);
  const read = readNode(root);
  assert.deepEqual([read.name, read.own['rel']], ['resource', undefined]);
  // A number is its text: XML writes the digits that JSON has.
  const parsed = JSON.parse(hal, (_, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? context?.source : value,
  ) as Hal;
  const form: Form = {
    relOf: (rel) => rel,
    hasLink: (rel, _, isRoot) => rel !== 'curies' || isRoot,
    hasAddress: true,
    valueOf: (_, value) => elementsOf(value),
  };
  return [linesOf(xmlContent(read)), linesOf(halContent(parsed, form))];
}

const sirenContent = ({ links = [], entities = [], properties }: SirenEntity): Content => ({
  links: links.flatMap(({ rel, href, title, type, ...rest }) => {
    assert.deepEqual([rel.length, rest], [1, {}]);
    return rel.map((one) => [one, { href, title, type } as Link] as const);
  }),
  embedded: entities.flatMap((entity) => (entity.rel ?? ['']).map((rel) => [rel, sirenContent(entity)] as const)),
  properties: Object.entries(properties),
});

/** The counts of a page: strings in HAL, numbers in Siren. */
const COUNTS: ReadonlySet<string> = new Set(['total_items', 'returned_items', 'limit', 'offset']);

/** Returns the lines of a Siren answer, and those of HAL as Siren: relations are addresses, and templates are no links. */
export function sirenAndHal(entity: SirenEntity, hal: string): [siren: string[], hal: string[]] {
  const parsed = JSON.parse(hal) as Hal;
  const [curie] = listOf(parsed._links?.['curies']);
  assert.ok(curie?.name !== undefined);
  const [prefix, template] = [`${curie.name}:`, curie.href];
  const form: Form = {
    relOf: (rel) =>
      rel.startsWith(prefix) ? template.replace('{rel}', encodeURIComponent(rel.slice(prefix.length))) : rel,
    hasLink: (_, { templated }) => templated !== true,
    valueOf: (name, value) => (COUNTS.has(name) && typeof value === 'string' ? Number(value) : value),
  };
  return [linesOf(sirenContent(entity)), linesOf(halContent(parsed, form))];
}
