/** Whether a command prints what its page shows: the words have to be there, numbers only have to be numbers. */

/** The status of an answer is what a page promises, so it is compared as it is. */
const PARTS = /(HTTP\/1\.1 \d{3}|…|\d+|\s+)/;

function patternOf(part: string): string {
  if (part === '…') return '[^]*?';
  if (/^\d+$/.test(part)) return '\\d+';
  return RegExp.escape(part.replaceAll(/\s/g, ''));
}

/**
 * `…` stands for anything, and the page may break lines where it likes. Ids, dates and sizes differ from run to run, so each
 * number stands for any other.
 */
export function isShown(shown: string, printed: string): boolean {
  return new RegExp(shown.trim().split(PARTS).map(patternOf).join('')).test(printed.replaceAll(/\s/g, ''));
}
