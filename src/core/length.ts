/** The length that a limit means: code points, so that no alphabet and no emoji counts twice. */
export const codePoints = (text: string): number => Array.from(text).length;

/** Counts nothing of a text that is far too long: a code point is one or two units of it. */
export const isLonger = (text: string, maximum: number): boolean =>
  text.length > 2 * maximum || codePoints(text) > maximum;
