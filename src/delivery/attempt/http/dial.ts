/**
 * Opens sockets to endpoints: checked by the guard, in observable steps, through the operator's proxy if there is one, with TLS
 * always verified and resumed if possible.
 */
import type { LookupAddress } from 'node:dns';
import { isIP, type Socket, connect, isIPv6 } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import { nodeHttp } from '#core/node-http.ts';
import { entriesUpTo } from '#core/entries.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { BlockedAddress, isPublic } from './outbound-guard.ts';

// Tunnels through the operator's forward proxy (CONNECT, RFC 9110 §9.3.6), so that endpoints see the addresses of the proxy. The
// proxy gets a checked address, never a name: it might resolve the name differently.

type Proxy = {
  /** A name, or an address without brackets; resolved by the system, because it is the operator's. */
  host: string;
  port: number;
  /** The value of `Proxy-Authorization`; null if the proxy needs none. */
  authorization: string | null;
};

/** `PROXY_NO_ROUTE`: the proxy could not connect to the endpoint. The others are never charged to the endpoint. */
class ProxyError extends Error {
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
function openTunnel(proxy: Proxy, tunnel: TunnelRequest): { destroy: () => void } {
  const { address, port, onReached, done } = tunnel;
  const target = `${isIPv6(address) ? `[${address}]` : address}:${port}`;
  const request = nodeHttp.request({
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

// Connects to a host with several addresses (RFC 8305).

/** Connection Attempt Delay (RFC 8305 §5). Node.js would end the earlier attempt instead of only beginning the next one. */
const NEXT_ATTEMPT_MS = 250;
/** A name may have thousands, and each attempt is a socket. */
const ADDRESSES_MAX = 8;

/** Returns the addresses in their order, with alternating families (RFC 8305 §4). */
function alternating(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const other = addresses.filter(({ family }) => family !== addresses[0]?.family);
  const pairs = Array.from({ length: Math.max(first.length, other.length) }, (_, at) => [first[at], other[at]]);
  return pairs.flat().filter((address) => address !== undefined);
}

/** Opens one TCP connection to several addresses. */
class HappyEyeballs {
  readonly #addresses: readonly LookupAddress[];
  readonly #port: number;
  readonly #done: (error: Error | null, socket: Socket | null) => void;
  readonly #pending = new Set<Socket>();
  /** In the order of the addresses. */
  readonly #errors: Error[] = [];
  #begun = 0;
  #next: NodeJS.Timeout | undefined;

  /**
   * Begins the first attempt. The next one begins after 250 ms, or as soon as one fails; the first connection ends all others.
   * Calls `done` once, with an `AggregateError` if every address fails, and not after `destroy`.
   */
  constructor(
    addresses: readonly LookupAddress[],
    port: number,
    done: (error: Error | null, socket: Socket | null) => void,
  ) {
    this.#addresses = alternating(addresses).slice(0, ADDRESSES_MAX);
    this.#port = port;
    this.#done = done;
    this.#beginNext();
  }

  destroy(): void {
    clearTimeout(this.#next);
    for (const socket of this.#pending) socket.destroy();
    this.#pending.clear();
  }

  readonly #beginNext = (): void => {
    clearTimeout(this.#next);
    const at = this.#begun;
    const address = this.#addresses[at];
    if (address === undefined) return;
    this.#begun += 1;
    const socket = connect({ host: address.address, port: this.#port });
    this.#pending.add(socket);
    socket.once('connect', () => {
      this.#pending.delete(socket);
      this.destroy();
      this.#done(null, socket);
    });
    socket.on('error', (error) => this.#failed(socket, at, error));
    if (this.#begun < this.#addresses.length) this.#next = setTimeout(this.#beginNext, NEXT_ATTEMPT_MS);
  };

  #failed(socket: Socket, at: number, error: Error): void {
    // After `connect`, errors belong to the new owner of the socket.
    if (!this.#pending.delete(socket)) return;
    this.#errors[at] = error;
    if (this.#begun < this.#addresses.length) this.#beginNext();
    else if (this.#pending.size === 0) this.#done(new AggregateError(this.#errors), null);
  }
}

export type DialSettings = {
  /** Time limit within that of the exchange: for the DNS look-up, and again for the rest. */
  connectTimeoutMs: number;
  /** Number of TLS sessions, one per origin; a ticket has about 1 KB. */
  tlsSessions: number;
  /** Connects to public addresses; those that the operator allows in addition are reached directly. */
  outboundProxy?: Proxy | undefined;
};

/** Step of opening a connection. The connection to a proxy belongs to `dns`: its time is not the endpoint's. */
type Step = 'dns' | 'connect' | 'tls';

type DialRequest = {
  origin: string;
  /** An IPv6 address without its brackets. */
  hostname: string;
  port: number;
  isTls: boolean;
  onStep: (step: Step) => void;
  /** Called once, unless the socket is destroyed before. */
  done: (error: Error | null, socket: Socket | null) => void;
};

/** A socket that is being opened, or the open one. */
export type Opening = { destroy: () => void };

export type Dialer = {
  /** Opens a socket to a checked address of the host. */
  dial: (request: DialRequest) => Opening;
  /** Numbers of full and of resumed handshakes. */
  handshakes: { full: number; resumed: number };
};

const TCP_KEEP_ALIVE_MS = 60_000;

class ConnectTimeout extends Error {
  readonly code = 'UND_ERR_CONNECT_TIMEOUT';
}

/** Begins TLS on a connected socket. */
type OpenTls = (request: DialRequest, socket: Socket, ready: () => void) => TLSSocket;

/** One socket that is being opened. */
class Dial implements Opening {
  readonly #request: DialRequest;
  readonly #openTls: OpenTls;
  readonly #timeout: NodeJS.Timeout;
  #opening: Opening | undefined;
  #isDone = false;

  constructor(request: DialRequest, openTls: OpenTls, timeoutMs: number) {
    this.#request = request;
    this.#openTls = openTls;
    this.#timeout = setTimeout(() => {
      // Reports the time-out before it destroys the socket, which closes without an error.
      this.#end(new ConnectTimeout('the connection was not opened in time'), null);
      this.#opening?.destroy();
    }, timeoutMs);
  }

  destroy(): void {
    this.#isDone = true;
    clearTimeout(this.#timeout);
    this.#opening?.destroy();
  }

  /** Connects through the proxy, if there is one, to the addresses that are public, otherwise directly. */
  async open(resolving: Promise<readonly LookupAddress[]>, proxy: Proxy | undefined): Promise<void> {
    this.#request.onStep('dns');
    try {
      const addresses = await resolving;
      if (this.#isDone) return;
      const [first, ...others] = addresses.filter(({ address }) => isPublic(address));
      if (proxy === undefined || first === undefined) this.#connect(addresses);
      else this.#connectThrough(proxy, first, others);
    } catch (error) {
      this.#end(error as Error, null);
    }
  }

  #connect(addresses: readonly LookupAddress[]): void {
    this.#begin('connect');
    this.#opening = new HappyEyeballs(addresses, this.#request.port, (error, socket) => {
      if (socket === null) this.#end(error, null);
      else this.#connected(socket);
    });
  }

  /** Tries the addresses one after the other. */
  #connectThrough(proxy: Proxy, { address }: LookupAddress, others: readonly LookupAddress[]): void {
    const { hostname, port } = this.#request;
    const [next, ...rest] = others;
    this.#opening = openTunnel(proxy, {
      hostname,
      address,
      port,
      onReached: () => this.#begin('connect'),
      done: (error, tunnel) => {
        if (this.#isDone) return void tunnel?.destroy();
        const hasNoRoute = error instanceof ProxyError && error.code === 'PROXY_NO_ROUTE';
        if (next !== undefined && hasNoRoute) return this.#connectThrough(proxy, next, rest);
        if (tunnel === null) this.#end(error, null);
        else this.#connected(tunnel);
      },
    });
  }

  #connected(socket: Socket): void {
    this.#watch(socket);
    if (!this.#request.isTls) return this.#end(null, socket);
    const secured: TLSSocket = this.#openTls(this.#request, socket, () => this.#end(null, secured));
    this.#watch(secured);
  }

  #watch(socket: Socket): void {
    this.#opening = socket;
    socket.setNoDelay(true).setKeepAlive(true, TCP_KEEP_ALIVE_MS);
    socket.on('error', (error) => this.#end(error, null));
    socket.once('close', () => clearTimeout(this.#timeout));
  }

  /** The time of the steps before does not count against the endpoint. */
  #begin(step: Step): void {
    this.#request.onStep(step);
    this.#timeout.refresh();
  }

  #end(error: Error | null, socket: Socket | null): void {
    clearTimeout(this.#timeout);
    if (this.#isDone) return;
    this.#isDone = true;
    this.#request.done(error, socket);
  }
}

/** A resumed session is not verified again, so a chain of sessions ends an hour after its certificate was verified. */
const VERIFIED_FOR_MS = 3_600_000;

/** A TLS session, which spares each side a full handshake of about a millisecond. */
type Session = { ticket: Buffer; verifiedAtMs: number };

export function createDialer({ guard, clock }: Pick<Runtime, 'guard' | 'clock'>, settings: DialSettings): Dialer {
  // By origin: a session of one name must not be used for another, and Node does not compare names on resumption.
  // undici's own cache contains 100 weak references, which every garbage collection clears.
  const sessions = new LRUCache<string, Session>(entriesUpTo(settings.tlsSessions));
  const handshakes = { full: 0, resumed: 0 };
  // All connections share the context: otherwise Node creates one for each, and loads all root certificates each time.
  let context: ReturnType<typeof createSecureContext> | undefined;

  const openTls: OpenTls = ({ origin, hostname, onStep }, tcpSocket, ready) => {
    const kept = sessions.get(origin);
    const isFresh = kept !== undefined && clock.monotonicMs() - kept.verifiedAtMs < VERIFIED_FOR_MS;
    const known = isFresh ? kept : undefined;
    let verifiedAtMs = known?.verifiedAtMs ?? Number.NEGATIVE_INFINITY;
    const socket = connectTls({
      socket: tcpSocket,
      // The certificate is verified against it if there is no servername.
      host: hostname,
      servername: isIP(hostname) === 0 ? hostname : '',
      // HTTP/2 is not offered: limits count connections, and one reset would end a hundred exchanges.
      ALPNProtocols: ['http/1.1'],
      secureContext: (context ??= createSecureContext()),
      // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED in the environment would disable it otherwise.
      rejectUnauthorized: true,
      ...(known !== undefined && { session: known.ticket }),
    });
    let isOpen = false;
    onStep('tls');
    socket.once('secureConnect', () => {
      isOpen = true;
      if (socket.isSessionReused()) handshakes.resumed += 1;
      else {
        handshakes.full += 1;
        verifiedAtMs = clock.monotonicMs();
      }
      ready();
    });
    // Node emits tickets only after the certificate, its name included, was verified. Further connections offer the newest.
    socket.on('session', (ticket) => sessions.set(origin, { ticket, verifiedAtMs }));
    const forget = () => {
      if (!isOpen && known !== undefined && sessions.peek(origin) === known) sessions.delete(origin);
    };
    // The error does not say whether the session was the cause. `close` comes later, but also after a time-out without
    // an error.
    socket.once('error', forget).once('close', forget);
    return socket;
  };

  return {
    dial: (request) => {
      const dial = new Dial(request, openTls, settings.connectTimeoutMs);
      void dial.open(guard.addressesOf(request), settings.outboundProxy);
      return dial;
    },
    handshakes,
  };
}
