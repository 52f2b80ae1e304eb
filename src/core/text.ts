/** Returns whether a text has no visible characters; such a name could not be read or clicked. */
export function isBlank(text: string): boolean {
  return /^[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
}

/** Returns the length in code points, so that all alphabets and emojis are counted alike. */
export function codePoints(text: string): number {
  return Array.from(text).length;
}

/**
 * Returns whether the text is longer than the maximum. It does not count texts that are far too long: a code point is one or two
 * UTF-16 units.
 */
export function isLonger(text: string, maximum: number): boolean {
  return text.length > 2 * maximum || codePoints(text) > maximum;
}
