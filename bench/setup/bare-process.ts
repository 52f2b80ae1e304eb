/** The rival that does nothing but send: no database, no lanes. */
import { AT_ONCE, openSender, type BareSender } from './bare-sender.ts';
import { answer } from './child.ts';

let sender: BareSender | undefined;

const handlers = {
  start: async (urls: string[]): Promise<void> => void (sender = openSender(urls)),
  /** Sends that many requests, the endpoints in turn, and resolves when all are answered. */
  send: (count: number): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let next = 0;
    let open = 0;
    const from = sender;
    if (from === undefined) return Promise.reject(new Error('Not started'));
    const pump = () => {
      while (open < AT_ONCE && next < count) {
        open += 1;
        const n = next++;
        from.dispatch(n, n, from.bodyOf(n), (error) => {
          open -= 1;
          if (error !== undefined) reject(error);
          else if (next === count && open === 0) resolve();
          else pump();
        });
      }
    };
    pump();
    return promise;
  },
};

export type BareProcess = typeof handlers;
answer(handlers, async () => {
  await sender?.stop();
});
