/** Ports for servers whose address must be known before they listen. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Below the ephemeral ports of the kernel, and above 10080, which `fetch` refuses. */
const FIRST = 10_100;
const PORTS = 21_999;
/** A server with demo data takes the next two ports for itself and its receiver. */
const PORTS_OF_SERVER = 3;
/** Processes start in different places, so that they seldom ask for the same port. */
const PORTS_OF_PROCESS = 20;

let taken = 0;

const nextPort = (): number => FIRST + ((PORTS_OF_SERVER * (process.pid * PORTS_OF_PROCESS + (taken += 1))) % PORTS);

async function opens(opening: Server | Socket): Promise<boolean> {
  try {
    await once(opening, 'listening');
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false;
    throw error;
  }
}

/** Reserves a port among the tests of this machine: a UDP socket on its number stays bound until this process ends. */
async function reserve(port: number): Promise<boolean> {
  const socket = createSocket('udp4').bind({ port, address: '127.0.0.1', exclusive: true });
  const isReserved = await opens(socket);
  if (isReserved) socket.unref();
  else socket.close();
  return isReserved;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  if (!(await opens(server))) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/**
 * Returns a port without a listener, that the kernel does not assign as an ephemeral port and that no other call on this
 * machine returns while this process lives. That a port is free is not enough: two processes that look before either
 * listens see the same free port.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort();
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
}
