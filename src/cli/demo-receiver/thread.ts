/** The entry of the worker thread of the demo receiver (receiver-server.ts). */
import type { AddressInfo } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { createDemoReceiver, type ThreadMessage, type WorkerData } from './receiver-server.ts';

const post = (message: ThreadMessage): void => parentPort?.postMessage(message, []);
const { port, ...options } = workerData as WorkerData;
const server = createDemoReceiver({ ...options, print: (line) => post({ line }) });
server.once('error', ({ code = '', message }: NodeJS.ErrnoException) => post({ code, message }));
server.listen(port, '127.0.0.1', () => post({ port: (server.address() as AddressInfo).port }));
