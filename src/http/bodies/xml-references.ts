/** Character and entity references of XML (XML 1.0 §4.1): those that every document has, and no other. */
import { malformed } from './utf8.ts';

const predefined: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const REFERENCES = /&(?:(amp|lt|gt|quot|apos)|#([0-9]+)|#x([0-9A-Fa-f]+));|&/g;

/** What XML 1.0 allows (§2.2, Char). */
const isCharacter = (code: number): boolean =>
  code >= 0x20
    ? code <= 0xd7ff || (code >= 0xe000 && code <= 0xfffd) || (code >= 0x1_0000 && code <= 0x10_ffff)
    : code === 0x9 || code === 0xa || code === 0xd;

/** The text that is meant; `path` is where it stands, for the 400 that an unknown reference is. */
export const resolveReferences = (text: string, path: string): string => {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCES, (found, name?: string, decimal?: string, hex?: string) => {
    if (name !== undefined) return predefined[name] ?? found;
    const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
    if (isCharacter(code)) return String.fromCodePoint(code);
    const message =
      'There are no entities but &amp; &lt; &gt; &quot; &apos; and references to characters, such as &#233;';
    throw malformed(message, path);
  });
};
