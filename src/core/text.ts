/**
 * The length of texts, and their characters that cannot be seen. Names of apps may not contain these, and texts of others are shown without
 * their effect, on pages and in mails.
 */

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

/** Characters that change the direction, break the line or are invisible: controls, format characters, fillers, U+2800. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** Scripts whose orthography uses joiners (RFC 5892, appendix A): Arabic (Persian) and the Indic scripts. */
const JOINING =
  String.raw`[\p{scx=Arab}\p{scx=Deva}\p{scx=Beng}\p{scx=Guru}\p{scx=Gujr}\p{scx=Orya}\p{scx=Taml}\p{scx=Telu}` +
  String.raw`\p{scx=Knda}\p{scx=Mlym}\p{scx=Sinh}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Mong}]`;
const PICTURE = String.raw`\p{Extended_Pictographic}\p{Emoji_Modifier}?`;

/** Invisible characters that are required: joiners in these scripts, joiners and variation selectors in emoji. */
const NEEDED = new RegExp(
  String.raw`(?<=${JOINING})[\u200c\u200d](?=${JOINING})|(?<=${PICTURE})(?:\ufe0f?\u200d(?=\p{Extended_Pictographic})|\ufe0f)`,
  'gu',
);

export function isLegible(text: string): boolean {
  return !INVISIBLE.test(text.replaceAll(NEEDED, ''));
}

/** Returns whether the text is legible and contains a letter or digit. */
export function isName(text: string): boolean {
  return isLegible(text) && /[\p{L}\p{N}]/u.test(text);
}

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

/** Returns the text for display, with a visible mark for each control character. Line ends are LF. */
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

/** In code points. Limits the text that a user of the service can put into a mail of the operator. */
const NAME_SHOWN_MAX = 60;
const NOT_IN_LINE = new RegExp(String.raw`(?:\s|${INVISIBLE.source})+`, 'gu');

/** What a mail program makes a link of: a dot in a host name, and the end of a scheme. */
const OF_LINK = /(?<=[\p{L}\p{N}])\.(?=[\p{L}\p{N}])|:(?=\/)/gu;

/** Returns a name for a mail, which cannot isolate it: on one line, without invisible characters and links, shortened. */
export function shownName(name: string): string {
  const points = Array.from(name.replaceAll(NOT_IN_LINE, ' ').trim().replaceAll(OF_LINK, '$& '));
  return points.length > NAME_SHOWN_MAX ? `${points.slice(0, NAME_SHOWN_MAX - 1).join('')}…` : points.join('');
}
