/** The entry of the worker thread of the demo receiver (start-receiver.ts). */
import type { AddressInfo } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { createDemoReceiver } from './receiver-server.ts';
import type { ThreadMessage, WorkerData } from './start-receiver.ts';

const post = (message: ThreadMessage): void => parentPort?.postMessage(message, []);
const { port, ...options } = workerData as WorkerData;
const server = createDemoReceiver({ ...options, print: (line) => post({ line }) });
server.once('error', ({ code = '', message }: NodeJS.ErrnoException) => post({ code, message }));
server.listen(port, '127.0.0.1', () => post({ port: (server.address() as AddressInfo).port }));
