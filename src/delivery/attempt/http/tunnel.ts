/**
 * Tunnels through the operator's forward proxy (CONNECT, RFC 9110 §9.3.6), so that endpoints see the addresses of the proxy. The
 * proxy gets a checked address, never a name: it might resolve the name differently.
 */
import { request as httpRequest } from 'node:http';
import { isIPv6, type Socket } from 'node:net';
import { BlockedAddress } from './guard.ts';

export type Proxy = {
  /** A name, or an address without brackets; resolved by the system, because it is the operator's. */
  host: string;
  port: number;
  /** The value of `Proxy-Authorization`; null if the proxy needs none. */
  authorization: string | null;
};

/** `PROXY_NO_ROUTE`: the proxy could not connect to the endpoint. The others are never charged to the endpoint. */
export class ProxyError extends Error {
  readonly code: 'PROXY_UNREACHABLE' | 'PROXY_CREDENTIALS' | 'PROXY_NO_ROUTE';

  constructor(code: ProxyError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

type TunnelRequest = {
  /** The host of the endpoint as its owner wrote it, for the message if the proxy refuses it. */
  hostname: string;
  address: string;
  port: number;
  /** Called when the proxy has accepted the connection; what takes long from here on is the endpoint. */
  onReached: () => void;
  /** Called once, unless the tunnel is destroyed before. */
  done: (error: Error | null, socket: Socket | null) => void;
};

/**
 * Returns why there is no tunnel. Wrong credentials are a 407 with a challenge (RFC 9110 §15.5.8), and a 401 of tinyproxy; a 407
 * without a challenge is how Smokescreen refuses an address.
 */
function refusal(status: number, isChallenge: boolean, { hostname, address }: TunnelRequest): Error {
  if (status === 401 || (status === 407 && isChallenge))
    return new ProxyError('PROXY_CREDENTIALS', 'the proxy does not accept the credentials');
  if (status >= 400 && status < 500)
    return new BlockedAddress(`deliveries may not reach ${hostname}: the proxy of the operator refuses it`, address);
  return new ProxyError('PROXY_NO_ROUTE', `the proxy cannot connect to the endpoint: ${status}`);
}

/** Opens a tunnel to a checked address; a socket that is returned is open. */
export function openTunnel(proxy: Proxy, tunnel: TunnelRequest): { destroy: () => void } {
  const { address, port, onReached, done } = tunnel;
  const target = `${isIPv6(address) ? `[${address}]` : address}:${port}`;
  const request = httpRequest({
    host: proxy.host,
    port: proxy.port,
    method: 'CONNECT',
    path: target,
    agent: false,
    headers: {
      Host: target,
      ...(proxy.authorization !== null && { 'Proxy-Authorization': proxy.authorization }),
    },
  });
  request.once('socket', (socket) => void socket.once('connect', onReached));
  request.once('connect', ({ statusCode = 0, headers }, socket: Socket, head) => {
    if (statusCode < 200 || statusCode > 299) {
      socket.destroy();
      return done(refusal(statusCode, headers['proxy-authenticate'] !== undefined, tunnel), null);
    }
    if (head.length > 0) socket.unshift(head);
    done(null, socket);
  });
  // Not `once`: destroying the request may cause another.
  request.on('error', (error) => done(new ProxyError('PROXY_UNREACHABLE', 'the proxy does not answer', error), null));
  request.end();
  return request;
}
