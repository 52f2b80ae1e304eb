/** Lists of unusual texts, several to a line: each text between ` ¦ ` is an entry, an empty one included. */
export function listed(...lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split(' ¦ '));
}
