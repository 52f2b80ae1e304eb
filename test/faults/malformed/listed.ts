/** Lists of odd texts, several to a line: what stands between ` ¦ ` is an entry, an empty one included. */
export function listed(...lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split(' ¦ '));
}
