/** The demo's receiver in a thread of its own: whatever is sent to it, what fails there ends there. */
import { Worker } from 'node:worker_threads';
import type { Running } from '#kernel/lifecycle.ts';

export type WorkerData = { port: number; key: string; headerPrefix: string };
/** What the thread says: where it listens, or why it does not; then a line for each delivery. */
export type Told = { port: number } | { code: string; message: string } | { line: string };

export type DemoReceiver = Running & { port: number };

/** Listens on loopback at `port`, or at a free one where that is 0. Throws with the `code` of Node where it cannot. */
export const startDemoReceiver = async ({
  print,
  ...workerData
}: WorkerData & { print: (text: string) => void }): Promise<DemoReceiver> => {
  const thread = new Worker(new URL('./thread.ts', import.meta.url), { workerData });
  const { promise: listening, resolve, reject } = Promise.withResolvers<number>();
  thread.on('message', (told: Told) => {
    if ('line' in told) print(told.line);
    else if ('port' in told) resolve(told.port);
    else reject(Object.assign(new Error(told.message), { code: told.code }));
  });
  thread.once('error', (error: Error) => {
    reject(error);
    print(`The demo receiver ended: ${error.message}. Deliveries to it fail until the next start.`);
  });
  const stop = async (): Promise<void> => void (await thread.terminate());
  try {
    return { port: await listening, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};
