import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below what the kernel gives to whoever asks for any port, and to connections; past 10080, which `fetch` refuses. */
const FIRST = 10_100;
const PORTS = 22_000;
const PORTS_OF_PROCESS = 20;

let taken = 0;

/** Each process of a run has numbers of its own, and goes on among the next ones when they are used up. */
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

/** A port on which nobody listens, and on which nobody will who did not ask for it by its number. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = nextPort();
    if (await isFree(port)) return port;
  }
};
