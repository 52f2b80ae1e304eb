/** Neutralises control characters in untrusted text that would affect the text around it. `html` does the escaping. */

/**
 * Control characters except line ends and tabs, and characters that change the direction of the following text (Unicode
 * TR 36 §2.11).
 */
const CONTROL = /(?![\t\n\u200E\u200F\u061C])[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
const EACH_CONTROL = new RegExp(CONTROL, 'gu');

/** The first Unicode picture of the 32 control characters. */
const PICTURES = 0x2400;

function picture(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code < 32 ? String.fromCodePoint(PICTURES + code) : '\uFFFD';
}

/**
 * Returns the text for display, with a visible mark for each control character. Line ends are `
 * `.
 */
export function harmless(text: string): string {
  return CONTROL.test(text) ? text.replaceAll('\r\n', '\n').replaceAll(EACH_CONTROL, picture) : text;
}

/** Returns the first characters (code points) of a long text. */
export function shortened(text: string, count: number): string {
  if (text.length <= count) return text;
  // A code point has at most two units.
  const characters = Array.from(text.slice(0, 2 * count + 1));
  return characters.length <= count ? text : `${characters.slice(0, count).join('')}…`;
}
