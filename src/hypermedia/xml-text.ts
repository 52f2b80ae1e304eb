/** Text in XML 1.0: escaped so that a parser gives back the very characters, or encoded where XML has no way to write them. */

/**
 * Whatever may need work, as everything but what never does: one test finds out. A surrogate pair is among it and fine,
 * and looked at again; emoji are rare.
 */
const SPECIAL_IN_TEXT = /[^\t\n\x20-%'-;=?-\ud7ff\ue000-\ufffd]/;
const SPECIAL_IN_ATTRIBUTE = /[^\x20!#-%'-;=-\ud7ff\ue000-\ufffd]/;

/** Whatever is no character of XML 1.0 (§2.2, Char). */
const FORBIDDEN = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;
const EACH_FORBIDDEN = new RegExp(FORBIDDEN, 'gu');

/** White space that a parser would turn into other white space (§2.11, §3.3.3) is written as a reference. */
const references: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\t': '&#9;',
  '\n': '&#10;',
  '\r': '&#13;',
};

const refer = (character: string): string => references[character] ?? character;

/** The value of an attribute in double quotes. Characters that XML forbids are replaced by U+FFFD. */
export const attribute = (value: string): string =>
  SPECIAL_IN_ATTRIBUTE.test(value) ? value.replace(EACH_FORBIDDEN, '\ufffd').replace(/[&<"\t\n\r]/g, refer) : value;

/** The tags around the content of an element. */
export type Tags = { open: string; close: string };

/**
 * An element with a text in it. Where XML forbids one of its characters, it is the base64 of the text's UTF-8, and an
 * attribute says so. Half of a surrogate pair becomes U+FFFD: UTF-8 has no way to write it, and no door lets it in.
 */
export const textElement = ({ open, close }: Tags, text: string): string => {
  if (!SPECIAL_IN_TEXT.test(text)) return open + text + close;
  const sound = text.toWellFormed();
  if (!FORBIDDEN.test(sound)) return open + sound.replace(/[&<>\r]/g, refer) + close;
  return `${open.slice(0, -1)} encoding="base64">${Buffer.from(sound).toString('base64')}${close}`;
};
