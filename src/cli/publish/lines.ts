/** A stream of bytes as lines, whatever its length: at most one line is held at a time, and no longer one than `limitBytes`. */

/** `endByte`: where the line ends in the stream. `fault` where it cannot be read, in words for whoever wrote it. */
export type Line = { number: number; endByte: number } & ({ text: string } | { fault: string });

const LINE_END = 0x0a;
/** What is no UTF-8 is refused: replaced, it would be published as something that nobody wrote. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

const read = (bytes: Buffer): { text: string } | { fault: string } => {
  try {
    return { text: utf8.decode(bytes).trim() };
  } catch {
    return { fault: 'the line is not UTF-8: write the file in that encoding' };
  }
};

/** Of the chunks as they come, the lines that end in each; blank ones are left out and counted. */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { limitBytes }: { limitBytes: number },
): AsyncGenerator<Line[]> {
  let [number, endByte, sizeBytes] = [0, 0, 0];
  let parts: Uint8Array[] = [];
  const add = (bytes: Uint8Array): void => {
    sizeBytes += bytes.length;
    endByte += bytes.length;
    if (sizeBytes <= limitBytes) parts.push(bytes);
    else parts = [];
  };
  const end = (): Line[] => {
    const isTooLong = sizeBytes > limitBytes;
    const content = isTooLong
      ? { fault: `the line is longer than ${limitBytes} bytes: one event is at most that long` }
      : read(Buffer.concat(parts));
    [number, sizeBytes, parts] = [number + 1, 0, []];
    return 'text' in content && content.text === '' ? [] : [{ number, endByte, ...content }];
  };
  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let from = 0;
    for (let at = chunk.indexOf(LINE_END); at !== -1; at = chunk.indexOf(LINE_END, from)) {
      add(chunk.subarray(from, at));
      endByte += 1;
      from = at + 1;
      lines.push(...end());
    }
    add(chunk.subarray(from));
    yield lines;
  }
  if (sizeBytes > 0) yield end();
}
