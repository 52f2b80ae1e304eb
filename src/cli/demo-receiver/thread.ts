/** The thread in which the demo's receiver listens (start.ts). */
import type { AddressInfo } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { createDemoReceiver } from './server.ts';
import type { Told, WorkerData } from './start.ts';

const tell = (told: Told): void => parentPort?.postMessage(told, []);
const { port, ...options } = workerData as WorkerData;
const server = createDemoReceiver({ ...options, print: (line) => tell({ line }) });
server.once('error', ({ code = '', message }: NodeJS.ErrnoException) => tell({ code, message }));
server.listen(port, '127.0.0.1', () => tell({ port: (server.address() as AddressInfo).port }));
