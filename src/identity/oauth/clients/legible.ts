/** Whether people can see all of a text: what is invisible makes one name look like another, or like none. */

/** Turns the direction, breaks the line, draws nothing or draws a blank: format characters, fillers, U+2800. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** Scripts whose spelling needs joiners (RFC 5892, appendix A): Persian, and those of India and around it. */
const JOINING =
  String.raw`[\p{scx=Arab}\p{scx=Deva}\p{scx=Beng}\p{scx=Guru}\p{scx=Gujr}\p{scx=Orya}\p{scx=Taml}\p{scx=Telu}` +
  String.raw`\p{scx=Knda}\p{scx=Mlym}\p{scx=Sinh}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Mong}]`;
const PICTURE = String.raw`\p{Extended_Pictographic}\p{Emoji_Modifier}?`;

/** What does not show by itself and is needed all the same: a joiner in those scripts, what makes one picture of several. */
const NEEDED = new RegExp(
  String.raw`(?<=${JOINING})[\u200c\u200d](?=${JOINING})|(?<=${PICTURE})(?:\ufe0f?\u200d(?=\p{Extended_Pictographic})|\ufe0f)`,
  'gu',
);

export const isLegible = (text: string): boolean => !INVISIBLE.test(text.replaceAll(NEEDED, ''));

/** Whether there is something to call it by: a name of blanks or of signs alone is none. */
export const isName = (text: string): boolean => isLegible(text) && /[\p{L}\p{N}]/u.test(text);
