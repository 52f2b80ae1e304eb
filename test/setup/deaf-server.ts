/** A server that does not accept: connections to it are neither opened nor refused until it listens again. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';

export type DeafServer = {
  port: number;
  /** Accepts everything from now on; the kernel repeats a lost SYN after a second. */
  accept: () => void;
  close: () => Promise<void>;
};

/** Starts it on these addresses, which are then full. `backlog` is the number of connections that `accept` can accept at once. */
export async function startDeafServer(
  hosts: readonly string[] = ['127.0.0.1'],
  { port = 0, backlog = 1 } = {},
): Promise<DeafServer> {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(
    `const { parentPort, workerData: { hosts, port, backlog, gate } } = require('node:worker_threads');
    const { createServer } = require('node:net');
    const { once } = require('node:events');
    (async () => {
      let at = port;
      for (const host of hosts) {
        const server = createServer((socket) => socket.on('error', () => {})).listen({ port: at, host, backlog });
        await once(server, 'listening');
        at = server.address().port;
      }
      parentPort.postMessage(at);
      Atomics.wait(gate, 0, 0);
    })();`,
    { eval: true, workerData: { hosts, port, backlog, gate } },
  );
  const [at] = (await once(worker, 'message')) as [number];
  // The kernel accepts one connection more than the backlog.
  const fillers: Socket[] = [];
  for (const host of hosts)
    for (let n = 0; n <= backlog; n += 1) {
      const filler = connect(at, host);
      filler.on('error', () => {});
      fillers.push(filler);
      await once(filler, 'connect');
    }
  return {
    port: at,
    accept: () => {
      Atomics.store(gate, 0, 1);
      Atomics.notify(gate, 0);
    },
    close: async () => {
      for (const filler of fillers) filler.destroy();
      await worker.terminate();
    },
  };
}
