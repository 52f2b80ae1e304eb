/** Resolves character references and the five predefined entities of XML (XML 1.0 §4.1). */
import { malformed } from './utf8.ts';

const predefined: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const REFERENCES = /&(?:(amp|lt|gt|quot|apos)|#([0-9]+)|#x([0-9A-Fa-f]+));|&/g;

/** Returns whether XML 1.0 allows the character (§2.2, Char). */
const isCharacter = (code: number): boolean =>
  code >= 0x20
    ? code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x1_0000 && code <= 0x10_ffff)
    : code === 0x9 || code === 0xa || code === 0xd;

/**
 * Returns the text with its references resolved. Throws a 400 for an unknown one; `path` is its location for the
 * message.
 */
export const resolveReferences = (text: string, path: string): string => {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCES, (found, name?: string, decimal?: string, hex?: string) => {
    if (name !== undefined) return predefined[name] ?? found;
    const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
    if (isCharacter(code)) return String.fromCodePoint(code);
    const message = 'Allowed are the entities &amp; &lt; &gt; &quot; &apos; and character references such as &#233;';
    throw malformed(message, path);
  });
};
