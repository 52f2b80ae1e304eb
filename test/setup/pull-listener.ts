/** A listener of a pull webhook, made of fetch and a parser of server-sent events. */
import type { TestApp } from './app.ts';
import { until } from './until.ts';

export type StreamEvent = { id: string | null; event: string; data: Record<string, unknown> };

export type Listener = {
  response: Response;
  /** All deliveries received so far. */
  events: StreamEvent[];
  /** Resolves when this many deliveries were received. */
  deliveries: (count: number) => Promise<StreamEvent[]>;
  /** Resolves with the reason of the closing event; null if the stream ended without one. */
  ended: Promise<string | null>;
  hangUp: () => void;
};

const fieldOf = (block: string, name: string): string | null =>
  new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? null;

/** `path`: of the webhook. Resolves when the response headers arrive. */
export async function listen(
  app: Pick<TestApp, 'api'>,
  path: string,
  { token, ...asked }: { token?: string; headers?: Record<string, string> } = {},
): Promise<Listener> {
  const headers = { Accept: 'text/event-stream', ...asked.headers };
  const response = await app.api('GET', `${path}/stream`, { headers, ...(token !== undefined && { token }) });
  const events: StreamEvent[] = [];
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const read = async (): Promise<string | null> => {
    if (response.status !== 200) return null;
    let text = '';
    for (;;) {
      const { done = true, value = '' } = (await reader?.read()) ?? {};
      if (done) return events.findLast(({ event }) => event === 'goodbye')?.data['reason'] as string | null;
      text += value;
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = fieldOf(block, 'event');
        if (event === null) continue;
        events.push({
          id: fieldOf(block, 'id'),
          event,
          data: JSON.parse(fieldOf(block, 'data') ?? '{}') as StreamEvent['data'],
        });
      }
    }
  };
  const ended = read().catch(() => null);
  const found = () => events.filter(({ event }) => event === 'delivery');
  return {
    response,
    events,
    deliveries: (count) =>
      until(
        async () => found(),
        (all) => all.length >= count,
      ),
    ended,
    hangUp: () => void reader?.cancel().catch(() => {}),
  };
}
