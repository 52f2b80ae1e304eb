import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ephemeral ports of the kernel, and above 10080, which `fetch` refuses. */
const FIRST = 10_100;
const PORTS = 22_000;
const PORTS_OF_PROCESS = 20;

let taken = 0;

/** Each process of a run has its own range of ports, and continues in the next range. */
const nextPort = (): number => FIRST + ((process.pid * PORTS_OF_PROCESS + (taken += 1)) % PORTS);

const isFree = async (port: number): Promise<boolean> => {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false;
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
};

/** Returns a port without a listener that the kernel does not assign as an ephemeral port. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = nextPort();
    if (await isFree(port)) return port;
  }
};
