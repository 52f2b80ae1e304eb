/**
 * Opens sockets to endpoints: checked by the guard, in observable steps, with TLS always verified and resumed if
 * possible.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import type { Clock } from '#core/clock.ts';
import type { Guard } from './guard.ts';
import { Sessions } from './sessions.ts';

export type DialSettings = {
  /** Time limit within that of the exchange: for the DNS look-up, and again for the rest. */
  connectTimeoutMs: number;
  /** Number of TLS sessions, one per origin; a ticket has about 1 KB. */
  tlsSessions: number;
};

/** Step of opening a connection. */
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

export type Dialer = {
  /**
   * Opens a socket. Throws `BlockedAddress` for a forbidden literal address; a name is checked when it has been
   * resolved.
   */
  dial: (request: DialRequest) => Socket;
  /** Numbers of full and of resumed handshakes. */
  handshakes: { full: number; resumed: number };
};

const TCP_KEEP_ALIVE_MS = 60_000;

class ConnectTimeout extends Error {
  readonly code = 'UND_ERR_CONNECT_TIMEOUT';
}

export function createDialer(deps: { guard: Guard; clock: Clock; settings: DialSettings }): Dialer {
  const { guard, clock, settings } = deps;
  const sessions = new Sessions(settings.tlsSessions);
  const handshakes = { full: 0, resumed: 0 };
  // Shared by all connections: otherwise Node creates one for each, and loads all root certificates each time.
  let context: ReturnType<typeof createSecureContext> | undefined;

  const openTls = ({ origin, hostname, port, onStep }: DialRequest, ready: () => void): TLSSocket => {
    const known = sessions.find(origin, clock.monotonicMs());
    let verifiedAtMs = known?.verifiedAtMs ?? Number.NEGATIVE_INFINITY;
    const socket = connectTls({
      host: hostname,
      port,
      lookup: guard.lookupFor(port),
      servername: isIP(hostname) === 0 ? hostname : '',
      // HTTP/2 is not offered: limits count connections, and one reset would end a hundred exchanges.
      ALPNProtocols: ['http/1.1'],
      secureContext: (context ??= createSecureContext()),
      // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED in the environment would disable it otherwise.
      rejectUnauthorized: true,
      ...(known !== undefined && { session: known.ticket }),
    });
    let isOpen = false;
    socket.once('connect', () => onStep('tls'));
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

  const openTcp = ({ hostname, port }: DialRequest, ready: () => void): Socket =>
    connectTcp({ host: hostname, port, lookup: guard.lookupFor(port) }).once('connect', ready);

  const dial = (request: DialRequest): Socket => {
    const { hostname, isTls, onStep, done } = request;
    guard.checkLiteral(request);
    onStep(isIP(hostname) === 0 ? 'dns' : 'connect');
    let isDone = false;
    const end = (error: Error | null, opened: Socket | null): void => {
      clearTimeout(timeout);
      if (isDone) return;
      isDone = true;
      done(error, opened);
    };
    const socket: Socket = (isTls ? openTls : openTcp)(request, () => end(null, socket));
    const timeout = setTimeout(() => {
      // Reports the time-out before it destroys the socket, which closes without an error.
      end(new ConnectTimeout('the connection was not opened in time'), null);
      socket.destroy();
    }, settings.connectTimeoutMs);
    socket.setNoDelay(true).setKeepAlive(true, TCP_KEEP_ALIVE_MS);
    socket.once('lookup', (error: Error | null) => {
      if (error !== null || isDone || socket.destroyed) return;
      onStep('connect');
      // The time of the look-up does not count against the endpoint.
      timeout.refresh();
    });
    socket.on('error', (error) => end(error, null));
    socket.once('close', () => clearTimeout(timeout));
    return socket;
  };
  return { dial, handshakes };
}
