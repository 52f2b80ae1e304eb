/** Lists of odd texts, several to a line: what stands between ` ¦ ` is an entry, an empty one included. */
export const listed = (...lines: readonly string[]): string[] => lines.flatMap((line) => line.split(' ¦ '));
