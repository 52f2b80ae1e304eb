/** In code points. Limits the text that a user of the service can put into a mail of the operator. */
const NAME_SHOWN_MAX = 60;

/** Returns a name for a mail: on one line, without invisible and direction-changing characters, shortened. */
export function shownName(name: string): string {
  const points = Array.from(name.replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim());
  return points.length > NAME_SHOWN_MAX ? `${points.slice(0, NAME_SHOWN_MAX - 1).join('')}…` : points.join('');
}
