/**
 * Renders XML (docs/xml.md): `link` elements, nested `resource` elements with a `rel`, and an element per property. Writes the
 * text directly, without a tree: escaped so that a parser returns the same characters, or encoded if XML 1.0 cannot represent
 * them.
 */
import { type Document, type Link, type Naming, type Value, isScalar, nameOf, templateOf } from './document.ts';

/**
 * Matches characters that may need escaping, as the complement of those that never do, so that one test suffices.
 * Surrogate pairs match and are checked again; emoji are rare.
 */
const SPECIAL_IN_TEXT = /[^\t\n\x20-%'-;=?-\ud7ff\ue000-\ufffd]/;
const SPECIAL_IN_ATTRIBUTE = /[^\x20!#-%'-;=-\ud7ff\ue000-\ufffd]/;

/** Characters that XML 1.0 forbids (§2.2, Char). */
const FORBIDDEN = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const EACH_FORBIDDEN = new RegExp(FORBIDDEN, 'gu');

/** References for markup and for white space that a parser would normalise (§2.11, §3.3.3). */
const references: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\t': '&#9;',
  '\n': '&#10;',
  '\r': '&#13;',
};

const referenceTo = (character: string): string => references[character] ?? character;

/** Returns an attribute value for double quotes. Forbidden characters are replaced by U+FFFD. */
function attribute(value: string): string {
  return SPECIAL_IN_ATTRIBUTE.test(value)
    ? value.replace(EACH_FORBIDDEN, '\ufffd').replace(/[&<"\t\n\r]/g, referenceTo)
    : value;
}

/** The tags of an element. */
type Tags = { open: string; close: string };

/**
 * Returns an element with a text. A text with forbidden characters is written as base64 of its UTF-8, with an
 * attribute. Half of a surrogate pair becomes U+FFFD: UTF-8 cannot represent it, and input with one is rejected.
 */
function textElement({ open, close }: Tags, text: string): string {
  if (!SPECIAL_IN_TEXT.test(text)) return open + text + close;
  const wellFormed = text.toWellFormed();
  if (!FORBIDDEN.test(wellFormed)) return open + wellFormed.replace(/[&<>\r]/g, referenceTo) + close;
  return `${open.slice(0, -1)} encoding="base64">${Buffer.from(wellFormed).toString('base64')}${close}`;
}

function linkOf({ rel, href, title, type, templated }: Link, naming: Naming): string {
  let tag = `<link rel="${attribute(nameOf(rel, naming))}" href="${attribute(href)}"`;
  if (title !== undefined) tag += ` title="${attribute(title)}"`;
  if (type !== undefined) tag += ` type="${attribute(type)}"`;
  if (templated === true) tag += ' templated="true"';
  return `${tag}/>`;
}

/**
 * Names that can be element names: ASCII, since editions of XML disagree about other letters; no colon, which marks a
 * namespace; no reserved name, no name that JavaScript parsers reject, and not `member`.
 */
const NAME = /^(?!xml|(?:member|__proto__|constructor|prototype)$)[A-Za-z_][\w.-]*$/i;

const makeTags = (name: string): Tags =>
  NAME.test(name)
    ? { open: `<${name}>`, close: `</${name}>` }
    : { open: `<member name="${attribute(name)}">`, close: '</member>' };

/**
 * Cached tags: without them a page of 20 webhooks takes 1.33 times as long. Bounded, because publishers choose names.
 */
const tagCache = new Map<string, Tags>();
const TAG_CACHE_MAX = 1_000;
const TAG_CACHE_CHARACTERS = 64;

function tagsOf(name: string): Tags {
  const present = tagCache.get(name);
  if (present !== undefined) return present;
  const tags = makeTags(name);
  if (tagCache.size < TAG_CACHE_MAX && name.length <= TAG_CACHE_CHARACTERS) tagCache.set(name, tags);
  return tags;
}

/** Tags of an array item within another array, whose own element cannot be repeated. */
const itemTags: Tags = { open: '<member>', close: '</member>' };

const isArray = (value: Value): value is readonly Value[] => Array.isArray(value);

function element(tags: Tags, value: Value): string {
  if (typeof value === 'string') return textElement(tags, value);
  if (value === null) return tags.open + tags.close;
  if (isScalar(value)) return tags.open + String(value) + tags.close;
  let inner = '';
  if (isArray(value)) for (const item of value) inner += element(itemTags, item);
  else for (const [name, member] of Object.entries(value)) inner += membersOf(name, member);
  return tags.open + inner + tags.close;
}

/** Returns a member of an object: one element, one per array item, or an empty one for an empty array. */
function membersOf(name: string, value: Value): string {
  const tags = tagsOf(name);
  if (!isArray(value) || value.length === 0) return element(tags, value);
  let elements = '';
  for (const item of value) elements += element(tags, item);
  return elements;
}

/** Returns a resource element: `rel` is its attribute if it is embedded, `first` its first content. */
function resource(document: Document, naming: Naming, rel: string, first: string): string {
  const self = document.links.find((link) => link.rel === 'self');
  let text = `<resource${rel}${self === undefined ? '' : ` href="${attribute(self.href)}"`}>${first}`;
  for (const link of document.links) text += linkOf(link, naming);
  for (const embedded of document.embedded) {
    const relation = ` rel="${attribute(nameOf(embedded.rel, naming))}"`;
    for (const child of embedded.documents) text += resource(child, naming, relation, '');
  }
  for (const { name, value } of document.properties) text += membersOf(name, value);
  return `${text}</resource>`;
}

/**
 * Renders an XML document. The result is always well-formed; null, "", {} and [] are an empty element, and numbers and
 * booleans are texts, because XML has no types.
 */
export function renderXml(document: Document, naming: Naming): string {
  const prefix = attribute(naming.relationPrefix);
  const curies = `<link rel="curies" name="${prefix}" href="${attribute(templateOf(naming))}" templated="true"/>`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${resource(document, naming, '', curies)}`;
}
