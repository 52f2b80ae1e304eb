/** Compares the output of a command with the page: words must match, numbers only have to be numbers. */

/** A page states the status of a response, so it is compared exactly. */
const PARTS = /(HTTP\/1\.1 \d{3}|…|\d+|\s+)/;

function patternOf(part: string): string {
  if (part === '…') return '[^]*?';
  if (/^\d+$/.test(part)) return '\\d+';
  return RegExp.escape(part.replaceAll(/\s/g, ''));
}

/**
 * `…` matches anything, and the page may break lines anywhere. Ids, dates and sizes differ from run to run, so each
 * number matches any other.
 */
export function isShown(shown: string, printed: string): boolean {
  return new RegExp(shown.trim().split(PARTS).map(patternOf).join('')).test(printed.replaceAll(/\s/g, ''));
}
