/** Validates that names contain no invisible characters, which make different names look equal or empty. */

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
