/** Text of strangers, made such that it does nothing to the text around it. Escaping is not done here: `html` does it. */

/** Controls but for line ends and tabs, and what turns the direction of all that follows (Unicode TR 36 §2.11). */
const UNSEEN = /(?![\t\n\u200E\u200F\u061C])[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, 'gu');

/** The Unicode pictures of the 32 controls begin here. */
const PICTURES = 0x2400;

const picture = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code < 32 ? String.fromCodePoint(PICTURES + code) : '\uFFFD';
};

/** Shown, never sent back: what is not seen has a mark in its place. Line ends are `\n`. */
export const harmless = (text: string): string =>
  UNSEEN.test(text) ? text.replaceAll('\r\n', '\n').replaceAll(EACH_UNSEEN, picture) : text;

/** The first characters (code points) of what is too long for its place. */
export const shortened = (text: string, count: number): string => {
  if (text.length <= count) return text;
  // A code point is two units at most.
  const characters = Array.from(text.slice(0, 2 * count + 1));
  return characters.length <= count ? text : `${characters.slice(0, count).join('')}…`;
};
