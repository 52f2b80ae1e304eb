/** What comes over a held-open stream (WHATWG HTML, "Server-sent events"): as much of it as Halcyon writes. */

export type ServerEvent = { event: string; data: string };

/** Beyond any delivery, whose body is 1 MiB at most: what has no end is not gathered. */
const EVENT_CHARACTERS_MAX = 8 * 1024 * 1024;

/** The lines of one event, without the empty one at its end; undefined where they are comments alone. */
const eventOf = (block: string): ServerEvent | undefined => {
  let event = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, field, value = ''] = /^(event|data)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'event') event = value;
    if (field === 'data') data.push(value);
  }
  return data.length === 0 && event === 'message' ? undefined : { event, data: data.join('\n') };
};

const SILENT = 'nothing is heard any more';

/** One read; throws where nothing comes in time. Time counts only while somebody waits for it: a slow app is no silence. */
const readWithin = async <T>(read: () => Promise<T>, silenceMs: number): Promise<T> => {
  const { promise: silent, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(SILENT)), silenceMs);
  try {
    return await Promise.race([read(), silent]);
  } finally {
    clearTimeout(timer);
  }
};

/** Ends with the stream; throws where it breaks, or where not even a comment comes for `silenceMs`. */
export async function* eventsIn(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  silenceMs: number,
): AsyncGenerator<ServerEvent> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await readWithin(() => reader.read(), silenceMs);
      if (done) return;
      text += value.replaceAll('\r', '');
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      if (text.length > EVENT_CHARACTERS_MAX) throw new Error('an event has no end');
      for (const block of blocks) {
        const event = eventOf(block);
        if (event !== undefined) yield event;
      }
    }
  } finally {
    // Not waited for: a stream that is silent does not answer to this either.
    void reader.cancel().catch(() => {});
  }
}
