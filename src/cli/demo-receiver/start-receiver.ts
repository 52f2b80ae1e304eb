/** Runs the demo receiver in a worker thread, so that its errors cannot end the server. */
import { Worker } from 'node:worker_threads';
import type { Running } from '#core/lifecycle.ts';

export type WorkerData = { port: number; key: string; headerPrefix: string; playedUntilMs: number };
/** Messages of the thread: the port or an error, then a line for each delivery. */
export type ThreadMessage = { port: number } | { code: string; message: string } | { line: string };

export type DemoReceiver = Running & { port: number };

/** Starts the receiver on loopback at `port`, or at a free port if it is 0. Throws an error with the `code` of Node. */
export async function startDemoReceiver({
  print,
  ...workerData
}: WorkerData & { print: (text: string) => void }): Promise<DemoReceiver> {
  const thread = new Worker(new URL('./thread.ts', import.meta.url), { workerData });
  const { promise: listening, resolve, reject } = Promise.withResolvers<number>();
  thread.on('message', (message: ThreadMessage) => {
    if ('line' in message) print(message.line);
    else if ('port' in message) resolve(message.port);
    else reject(Object.assign(new Error(message.message), { code: message.code }));
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
}
