/**
 * Text in XML 1.0: escaped so that a parser returns the same characters, or encoded where XML cannot represent them.
 */

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
export function attribute(value: string): string {
  return SPECIAL_IN_ATTRIBUTE.test(value)
    ? value.replace(EACH_FORBIDDEN, '\ufffd').replace(/[&<"\t\n\r]/g, referenceTo)
    : value;
}

/** The tags of an element. */
export type Tags = { open: string; close: string };

/**
 * Returns an element with a text. A text with forbidden characters is written as base64 of its UTF-8, with an
 * attribute. Half of a surrogate pair becomes U+FFFD: UTF-8 cannot represent it, and input with one is rejected.
 */
export function textElement({ open, close }: Tags, text: string): string {
  if (!SPECIAL_IN_TEXT.test(text)) return open + text + close;
  const wellFormed = text.toWellFormed();
  if (!FORBIDDEN.test(wellFormed)) return open + wellFormed.replace(/[&<>\r]/g, referenceTo) + close;
  return `${open.slice(0, -1)} encoding="base64">${Buffer.from(wellFormed).toString('base64')}${close}`;
}
