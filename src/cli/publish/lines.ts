/** Splits a stream into lines; buffers at most one line of at most `limitBytes`. */

/** `endByte` is the end of the line in the stream. `fault` is a message if the line cannot be read. */
export type Line = { number: number; endByte: number } & ({ text: string } | { fault: string });

const LINE_END = 0x0a;
/** Fatal, because replacement characters would be published. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

function read(bytes: Buffer): { text: string } | { fault: string } {
  try {
    return { text: utf8.decode(bytes).trim() };
  } catch {
    return { fault: 'the line is not UTF-8: write the file in that encoding' };
  }
}

/** Yields for each chunk the lines that end in it. Blank lines are skipped, but counted in line numbers. */
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
      ? { fault: `the line is longer than ${limitBytes} bytes, the limit for one event` }
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
