/** The ports of a process: whether they are free, and what to do if they are not. */
import { createServer } from 'node:net';

/** Returns the error code with which a port cannot be listened on; undefined if it can. */
export async function refusalOf(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  server.listen(port, host, () => server.close(() => resolve(undefined)));
  return promise;
}

/** Returns the remedy for an error code of Node. Ports below 1024 require root or a capability. */
export function adviceOnPort(code: string | undefined, setting: 'PORT' | 'METRICS_PORT'): string {
  return code === 'EACCES' || code === 'EPERM'
    ? `Set ${setting} to one from 1024 on, and put a proxy in front of it`
    : `Set HOST and ${setting} to an address of this machine`;
}
