/**
 * The XML form (docs/xml.md): `link` elements, nested `resource` elements with a `rel`, and a property an element. Pure,
 * and knows no resource. It is written as it goes: no tree is made of it.
 */
import type { Document, Link, Naming, Value } from './document.ts';
import { nameOf, templateOf } from './relations.ts';
import { attribute, textElement, type Tags } from './xml-text.ts';

const linkOf = ({ rel, href, title, type, templated }: Link, naming: Naming): string => {
  let element = `<link rel="${attribute(nameOf(rel, naming))}" href="${attribute(href)}"`;
  if (title !== undefined) element += ` title="${attribute(title)}"`;
  if (type !== undefined) element += ` type="${attribute(type)}"`;
  if (templated === true) element += ' templated="true"';
  return `${element}/>`;
};

/**
 * What a name may be to become an element's: ASCII, since editions of XML disagree about the rest; no colon, which would
 * be a namespace; nothing that XML reserves, nor a word that parsers in JavaScript refuse, nor our own.
 */
const NAME = /^(?!xml|(?:member|__proto__|constructor|prototype)$)[A-Za-z_][\w.-]*$/i;

const makeTags = (name: string): Tags =>
  NAME.test(name)
    ? { open: `<${name}>`, close: `</${name}>` }
    : { open: `<member name="${attribute(name)}">`, close: '</member>' };

/** Written ready: a page of 20 webhooks takes a third longer without. Publishers may make up names, so not for ever more. */
const known = new Map<string, Tags>();
const KNOWN_MAX = 1_000;
const KNOWN_CHARACTERS = 64;

const tagsOf = (name: string): Tags => {
  const present = known.get(name);
  if (present !== undefined) return present;
  const tags = makeTags(name);
  if (known.size < KNOWN_MAX && name.length <= KNOWN_CHARACTERS) known.set(name, tags);
  return tags;
};

/** An item of an array that stands in another array, whose own element is not free to be repeated. */
const itemTags: Tags = { open: '<member>', close: '</member>' };

const isArray = (value: Value): value is readonly Value[] => Array.isArray(value);

const element = (tags: Tags, value: Value): string => {
  if (typeof value === 'string') return textElement(tags, value);
  if (value === null) return tags.open + tags.close;
  if (typeof value !== 'object') return tags.open + value + tags.close;
  let inner = '';
  if (isArray(value)) for (const item of value) inner += element(itemTags, item);
  else for (const [name, member] of Object.entries(value)) inner += membersOf(name, member);
  return tags.open + inner + tags.close;
};

/** A member of an object: an element, one for each item of an array, and an empty one for an empty array. */
const membersOf = (name: string, value: Value): string => {
  const tags = tagsOf(name);
  if (!isArray(value) || value.length === 0) return element(tags, value);
  let all = '';
  for (const item of value) all += element(tags, item);
  return all;
};

/** A representation: `rel` is the attribute where it is embedded in another one, `first` what stands in it first. */
const resource = (document: Document, naming: Naming, rel: string, first: string): string => {
  const self = document.links.find((link) => link.rel === 'self');
  let text = `<resource${rel}${self === undefined ? '' : ` href="${attribute(self.href)}"`}>${first}`;
  for (const link of document.links) text += linkOf(link, naming);
  for (const embedded of document.embedded) {
    const relation = ` rel="${attribute(nameOf(embedded.rel, naming))}"`;
    for (const child of embedded.documents) text += resource(child, naming, relation, '');
  }
  for (const { name, value } of document.properties) text += membersOf(name, value);
  return `${text}</resource>`;
};

/**
 * A whole XML document. Whatever the Document holds, the result is well-formed; null, "", {} and [] are all an empty
 * element, and numbers and booleans are texts: XML has no types.
 */
export const renderXml = (document: Document, naming: Naming): string => {
  const prefix = attribute(naming.relationPrefix);
  const curies = `<link rel="curies" name="${prefix}" href="${attribute(templateOf(naming))}" templated="true"/>`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${resource(document, naming, '', curies)}`;
};
