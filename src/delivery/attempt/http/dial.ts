/**
 * Opens sockets to endpoints: checked by the guard, in observable steps, through the operator's proxy if there is one, with TLS
 * always verified and resumed if possible.
 */
import type { LookupAddress } from 'node:dns';
import { isIP, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import type { Clock } from '#core/clock.ts';
import type { Guard } from './guard.ts';
import { HappyEyeballs } from './happy-eyeballs.ts';
import { isPublic } from './networks.ts';
import { Sessions } from './sessions.ts';
import { openTunnel, ProxyError, type Proxy } from './tunnel.ts';

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
  /**
   * Opens a socket. Throws `BlockedAddress` for a forbidden literal address; a name is checked when it has been
   * resolved.
   */
  dial: (request: DialRequest) => Opening;
  /** Numbers of full and of resumed handshakes. */
  handshakes: { full: number; resumed: number };
};

const TCP_KEEP_ALIVE_MS = 60_000;

class ConnectTimeout extends Error {
  readonly code = 'UND_ERR_CONNECT_TIMEOUT';
}

/** Returns the checked addresses of the host; rejects like the look-up function of the guard. */
async function addressesOf(guard: Guard, { hostname, port }: DialRequest): Promise<LookupAddress[]> {
  const family = isIP(hostname);
  if (family !== 0) return [{ address: hostname, family }];
  return new Promise((resolve, reject) => {
    guard.lookupFor(port)(hostname, { all: true }, (error, addresses) => {
      if (error === null) resolve(addresses as LookupAddress[]);
      else reject(error);
    });
  });
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
  async open(resolving: Promise<LookupAddress[]>, proxy: Proxy | undefined): Promise<void> {
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

export function createDialer(deps: { guard: Guard; clock: Clock; settings: DialSettings }): Dialer {
  const { guard, clock, settings } = deps;
  const sessions = new Sessions(settings.tlsSessions);
  const handshakes = { full: 0, resumed: 0 };
  // Shared by all connections: otherwise Node creates one for each, and loads all root certificates each time.
  let context: ReturnType<typeof createSecureContext> | undefined;

  const openTls: OpenTls = ({ origin, hostname, onStep }, tcpSocket, ready) => {
    const known = sessions.find(origin, clock.monotonicMs());
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
    // Node emits tickets only after the certificate, its name included, was verified.
    socket.on('session', (ticket) => sessions.keep(origin, { ticket, verifiedAtMs }));
    const forget = () => {
      if (!isOpen && known !== undefined) sessions.forget(origin, known);
    };
    // The error does not say whether the session was the cause. `close` comes later, but also after a time-out without
    // an error.
    socket.once('error', forget).once('close', forget);
    return socket;
  };

  return {
    dial: (request) => {
      guard.checkLiteral(request);
      const dial = new Dial(request, openTls, settings.connectTimeoutMs);
      void dial.open(addressesOf(guard, request), settings.outboundProxy);
      return dial;
    },
    handshakes,
  };
}
