/** Text in XML 1.0: escaped so that a parser gives back the very characters, or encoded where XML has no way to write them. */

/** What may need work: one test finds it out. A surrogate pair is fine, and looked at again; emoji are rare. */
const SPECIAL_IN_TEXT = /[\0-\x08\x0b-\x1f&<>\ud800-\udfff\ufffe\uffff]/;
const SPECIAL_IN_ATTRIBUTE = /[\0-\x1f"&<\ud800-\udfff\ufffe\uffff]/;

/** What XML 1.0 leaves out (§2.2, Char), beside halves of surrogate pairs. */
const FORBIDDEN = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/;
const EACH_FORBIDDEN = new RegExp(FORBIDDEN, 'g');

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
  SPECIAL_IN_ATTRIBUTE.test(value)
    ? value
        .toWellFormed()
        .replace(EACH_FORBIDDEN, '\ufffd')
        .replace(/[&<"\t\n\r]/g, refer)
    : value;

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
