/** A forward proxy on loopback (CONNECT, RFC 9110 §9.3.6): records what it is asked for, and connects where the test says. */
import { createServer, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { after } from 'node:test';
import { portOf } from './exchanges.ts';

/** The port on loopback to connect to, or the response that refuses. */
type Said = { port: number } | { status: number; headers?: Readonly<Record<string, string>> };

export type ForwardProxy = {
  host: string;
  port: number;
  /** The target of each request, such as `1.1.1.1:443`. */
  asked: string[];
  /** Its `Proxy-Authorization`. */
  credentials: (string | undefined)[];
  /** Open tunnels. */
  tunnels: () => number;
  say: (say: (target: string) => Said) => void;
};

function refuse(client: Socket, status: number, headers: Readonly<Record<string, string>> = {}): void {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  client.end(`HTTP/1.1 ${status} No\r\n${lines.join('')}Content-Length: 0\r\n\r\n`);
}

export async function startForwardProxy(): Promise<ForwardProxy> {
  let say: (target: string) => Said = () => ({ status: 502 });
  const proxy = { asked: [] as string[], credentials: [] as (string | undefined)[] };
  const sockets = new Set<Socket>();
  let tunnels = 0;
  const server = createServer();
  server.on('connect', ({ url = '', headers }: IncomingMessage, client: Socket) => {
    client.on('error', () => {});
    proxy.asked.push(url);
    proxy.credentials.push(headers['proxy-authorization']);
    const said = say(url);
    if ('status' in said) return refuse(client, said.status, said.headers);
    const upstream = connect(said.port, '127.0.0.1', () => {
      tunnels += 1;
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      client.pipe(upstream).pipe(client);
    });
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy());
    // The server would keep the other direction open.
    client.on('end', () => client.destroy());
    client.on('close', () => {
      tunnels -= 1;
      upstream.destroy();
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    ...proxy,
    host: '127.0.0.1',
    port: portOf(server),
    tunnels: () => tunnels,
    say: (next) => void (say = next),
  };
}
