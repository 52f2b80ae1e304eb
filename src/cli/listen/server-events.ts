/** Parses a stream of server-sent events (WHATWG HTML), limited to the features that Halcyon uses. */

export type ServerEvent = { event: string; data: string };

/** Larger than any delivery, whose body has at most 1 MiB; limits the memory for an event without an end. */
const EVENT_CHARACTERS_MAX = 8 * 1024 * 1024;

/** Returns the event of a block of lines; undefined if the block contains only comments. */
function eventOf(block: string): ServerEvent | undefined {
  let event = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, field, value = ''] = /^(event|data)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'event') event = value;
    if (field === 'data') data.push(value);
  }
  return data.length === 0 && event === 'message' ? undefined : { event, data: data.join('\n') };
}

const SILENT = 'the connection is silent';

/** Reads once; throws on a time-out. Time counts only during a read, so a slow app does not look like a silent connection. */
async function readWithin<T>(read: () => Promise<T>, silenceMs: number): Promise<T> {
  const { promise: silent, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(SILENT)), silenceMs);
  try {
    return await Promise.race([read(), silent]);
  } finally {
    clearTimeout(timer);
  }
}

/** Yields the events until the stream ends; throws if it breaks, or if not even a comment arrives for `silenceMs`. */
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
    // Not awaited: cancelling a silent stream may never resolve.
    void reader.cancel().catch(() => {});
  }
}
