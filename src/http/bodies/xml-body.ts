/**
 * Parses an XML body into a value, as docs/xml.md describes; the inverse of the renderer. The library is lenient (it accepted
 * 28 of 63 texts that libxml rejects), so unsafe input is rejected here: a DOCTYPE, entities, characters that XML forbids, text
 * beside elements, a second root.
 */
import { malformed, decode } from './json-body.ts';
import { isUtf8 } from 'node:buffer';
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { Problem } from '#core/problem.ts';

const predefined: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const REFERENCES = /&(?:(amp|lt|gt|quot|apos)|#([0-9]+)|#x([0-9A-Fa-f]+));|&/g;

/** Returns whether XML 1.0 allows the character (§2.2, Char). */
const isCharacter = (code: number): boolean =>
  code >= 0x20
    ? code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x1_0000 && code <= 0x10_ffff)
    : code === 0x9 || code === 0xa || code === 0xd;

/**
 * Resolves character references and the five predefined entities of XML (XML 1.0 §4.1). Throws a 400 for an unknown
 * one; `path` is its location for the message.
 */
function resolveReferences(text: string, path: string): string {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCES, (found, name?: string, decimal?: string, hex?: string) => {
    if (name !== undefined) return predefined[name] ?? found;
    const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
    if (isCharacter(code)) return String.fromCodePoint(code);
    const message = 'Allowed are the entities &amp; &lt; &gt; &quot; &apos; and character references such as &#233;';
    throw malformed(message, path);
  });
}

/** The library takes 2.5 s for the 16 MiB that events may have in JSON, and blocks the event loop meanwhile. */
const BODY_LIMIT_BYTES = 1024 * 1024;
/** 25,000 tags take 20 ms, 115,000 attributes took 800, and a mebibyte of references 100. */
const TAGS_MAX = 25_000;
const ATTRIBUTES_MAX = 5_000;
const REFERENCES_MAX = 25_000;
const NAME_LENGTH_MAX = 1_000;
const DEPTH_MAX = 100;
const MESSAGE_LENGTH_MAX = 200;

const CDATA = '#cdata';
const ATTRIBUTES = ':@';

const parser = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  cdataPropName: CDATA,
  trimValues: false,
  parseTagValue: false,
  processEntities: false,
  ignoreDeclaration: true,
  ignorePiTags: true,
  jPath: false,
  maxNestedTags: DEPTH_MAX - 1,
  onDangerousProperty: (name) => name,
});

/** The library's representation of an element: name with content, and attributes. */
type Node = { readonly [name: string]: readonly Node[] | string };

type Element = { name: string; attributes: ReadonlyMap<string, string>; content: readonly Node[] };

function positionOf(text: string, index: number): string {
  const lines = text.slice(0, index).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/**
 * Matches comments, CDATA and instructions as a whole, so that their content is neither taken for a declaration nor
 * hides one.
 */
const MARKUP = /<!--[^]*?-->|<!\[CDATA\[[^]*?\]\]>|<\?[^]*?\?>|<[!?]/g;

function refuseUnsafe(text: string): void {
  // Characters of XML 1.0 (§2.2, Char); the text is UTF-8, so it contains no half of a surrogate pair.
  const forbidden = text.search(/[^\t\n\r\x20-\ufffd]/);
  if (forbidden !== -1) throw malformed(`XML does not allow the character at ${positionOf(text, forbidden)}`);
  const encoding = /^<\?xml\s[^>]*?encoding\s*=\s*["']([^"']*)/.exec(text)?.[1];
  if (encoding !== undefined && encoding.toLowerCase() !== 'utf-8') throw malformed('Send XML in UTF-8 and say so');
  for (const { 0: found, index } of text.matchAll(MARKUP)) {
    if (found.length > 2) continue;
    const isOpen = /^<(?:\?|!--|!\[CDATA\[)/.test(text.slice(index, index + 9));
    const what = isOpen ? 'A comment, CDATA or an instruction is not closed' : 'DOCTYPE and ENTITY are not allowed';
    throw malformed(`${what} (${positionOf(text, index)})`);
  }
  // Marks in texts are counted as well: to distinguish them takes as long as this check saves.
  const limits = [
    ['<', TAGS_MAX, 'tags'],
    ['=', ATTRIBUTES_MAX, 'attributes (or "=" in texts)'],
    ['&', REFERENCES_MAX, 'references'],
  ] as const;
  for (const [mark, max, what] of limits) {
    if (text.split(mark, max + 2).length > max + 1) throw malformed(`The body has more than ${max} ${what}`);
  }
}

function parse(text: string): readonly Node[] {
  const checked = XMLValidator.validate(text);
  if (checked !== true) {
    const { msg, line, col } = checked.err;
    throw malformed(`The body is not well-formed XML (line ${line}, column ${col ?? 1}: ${brief(msg)})`);
  }
  try {
    return parser.parse(text) as readonly Node[];
  } catch (error) {
    const { message } = error as Error;
    if (message.includes('nested')) throw malformed(`The body is nested more than ${DEPTH_MAX} levels deep`);
    const word = /Invalid name: "(\w+)"/.exec(message)?.[1];
    if (word !== undefined) throw malformed(`Write <member name="${word}"> for an element of that name`, word);
    throw malformed(`The body is not well-formed XML (${brief(message)})`);
  }
}

const brief = (message: string): string => message.slice(0, MESSAGE_LENGTH_MAX);

const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

function checkName(name: string, path: string): void {
  if (name.length > NAME_LENGTH_MAX) throw malformed(`A name has more than ${NAME_LENGTH_MAX} characters`, path);
}

function attributesOf(node: Node, path: string): ReadonlyMap<string, string> {
  const attributes = Object.entries(node[ATTRIBUTES] ?? {}).map(([name, value]): [string, string] => {
    const text = String(value);
    checkName(name, path);
    if (text.includes('<')) throw malformed('An attribute contains <, which must be written as &lt;', path);
    // Attribute-value normalization (XML 1.0 §3.3.3).
    return [name.slice(1), resolveReferences(text.replace(/[\t\n]/g, ' '), path)];
  });
  return new Map(attributes);
}

function textIn(node: Node | undefined): string {
  const text = node?.['#text'];
  return typeof text === 'string' ? text : '';
}

function contentOf(nodes: readonly Node[], path: string): { text: string; elements: Element[] } {
  let text = '';
  const elements: Element[] = [];
  for (const node of nodes) {
    for (const [name, content] of Object.entries(node)) {
      if (name === ATTRIBUTES) continue;
      checkName(name, path);
      if (typeof content === 'string') text += resolveReferences(content, path);
      else if (name === CDATA) text += textIn(content[0]);
      else elements.push({ name, attributes: attributesOf(node, join(path, name)), content });
    }
  }
  if (elements.length > 0 && text.trim() !== '') throw malformed('Text and elements cannot be mixed', path);
  return { text, elements };
}

function textOf(text: string, encoding: string | undefined, path: string): string {
  if (encoding === undefined) return text;
  const bytes = Buffer.from(text, 'base64');
  if (encoding !== 'base64' || /[^A-Za-z0-9+/=\s]/.test(text) || !isUtf8(bytes))
    throw malformed('The encoding must be base64 of valid UTF-8', path);
  if (bytes.includes(0)) throw malformed('The body contains a NUL character', path);
  return bytes.toString();
}

function valueOf({ attributes, content }: Element, path: string): unknown {
  const { text, elements } = contentOf(content, path);
  return elements.length === 0 ? textOf(text, attributes.get('encoding'), path) : membersOf(elements, path, new Set());
}

/** Returns whether the element is a link or an embedded representation, which are read-only. */
const isReadOnly = ({ name, attributes }: Element): boolean =>
  (name === 'link' || name === 'resource') && attributes.has('rel');

/** Returns an object, or an array if the elements are `member` without a name. */
function membersOf(elements: readonly Element[], path: string, arrays: ReadonlySet<string>): unknown {
  const nameOf = ({ name, attributes }: Element) => (name === 'member' ? attributes.get('name') : name);
  const groups = Map.groupBy(
    elements.filter((element) => !isReadOnly(element)),
    nameOf,
  );
  const items = groups.get(undefined);
  if (items !== undefined) {
    if (groups.size > 1)
      throw malformed('A member without a name is an item of an array, and cannot be mixed with named members', path);
    return items.map((item, index) => valueOf(item, join(path, String(index))));
  }
  const object = Object.create(null) as Record<string, unknown>;
  for (const [name = '', group] of groups) {
    const values = group.map((element) => valueOf(element, join(path, name)));
    if (!arrays.has(name)) object[name] = values.length === 1 ? values[0] : values;
    else object[name] = values.length === 1 && values[0] === '' ? [] : values;
  }
  return object;
}

/**
 * Parses an XML body. `arrays` are the members that are arrays even with one item, or with an empty element for none.
 * Throws 400 and 413.
 */
export function parseXml(bytes: Uint8Array, arrays: ReadonlySet<string>): unknown {
  if (bytes.length > BODY_LIMIT_BYTES) {
    const message = `A body in XML has at most ${BODY_LIMIT_BYTES} bytes; send JSON`;
    throw new Problem(413, { code: 'too_large', message });
  }
  const text = decode(bytes);
  refuseUnsafe(text);
  const { text: outerText, elements } = contentOf(parse(text), '');
  const [root] = elements;
  if (root?.name !== 'resource' || elements.length > 1 || outerText.trim() !== '')
    throw malformed('The root of the body must be one element named resource');
  const { text: innerText, elements: members } = contentOf(root.content, '');
  if (innerText.trim() !== '' && members.length === 0)
    throw malformed('The element resource contains elements, not text');
  return membersOf(members, '', arrays);
}
