/** Opens a socket to an endpoint: guarded, in steps that can be told apart, TLS verified always and resumed where it can be. */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type TLSSocket } from 'node:tls';
import type { Clock } from '#core/clock.ts';
import type { Guard } from './guard.ts';
import { Sessions } from './sessions.ts';

export type DialSettings = {
  /** Part of the time of the exchange. For the look-up, and again for the rest. */
  connectTimeoutMs: number;
  /** One an origin; a ticket has about 1 KB. */
  tlsSessions: number;
};

/** How far opening is. */
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
  /** Throws `BlockedAddress` for an address that the guard forbids; a name is judged when it was looked up. */
  dial: (request: DialRequest) => Socket;
  /** How many handshakes were made in full, and how many resumed a session. */
  handshakes: { full: number; resumed: number };
};

const TCP_KEEP_ALIVE_MS = 60_000;

class ConnectTimeout extends Error {
  readonly code = 'UND_ERR_CONNECT_TIMEOUT';
}

export const createDialer = (deps: { guard: Guard; clock: Clock; settings: DialSettings }): Dialer => {
  const { guard, clock, settings } = deps;
  const sessions = new Sessions(settings.tlsSessions);
  const handshakes = { full: 0, resumed: 0 };
  // One for all connections: Node makes one for each otherwise, with the whole list of authorities to go through.
  let context: ReturnType<typeof createSecureContext> | undefined;

  const openTls = ({ origin, hostname, port, onStep }: DialRequest, ready: () => void): TLSSocket => {
    const known = sessions.find(origin, clock.monotonicMs());
    let verifiedAtMs = known?.verifiedAtMs ?? Number.NEGATIVE_INFINITY;
    const socket = connectTls({
      host: hostname,
      port,
      lookup: guard.lookupFor(port),
      servername: isIP(hostname) === 0 ? hostname : '',
      // HTTP/2 is not offered: what is in flight is counted by connections, and a reset would end a hundred exchanges.
      ALPNProtocols: ['http/1.1'],
      secureContext: (context ??= createSecureContext()),
      // Said, because NODE_TLS_REJECT_UNAUTHORIZED in the environment would switch it off otherwise.
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
    // Node tells of tickets only when the certificate was verified, its name included.
    socket.on('session', (ticket) => sessions.keep(origin, { ticket, verifiedAtMs }));
    const forget = () => {
      if (!isOpen && known !== undefined) sessions.forget(origin, known);
    };
    // Nobody says whether the session was to blame. `close` comes timeout, but also where there is no error: a time-out.
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
      // First the word, then the socket: it closes without an error of its own.
      end(new ConnectTimeout('the connection was not opened in time'), null);
      socket.destroy();
    }, settings.connectTimeoutMs);
    socket.setNoDelay(true).setKeepAlive(true, TCP_KEEP_ALIVE_MS);
    socket.once('lookup', (error: Error | null) => {
      if (error !== null || isDone || socket.destroyed) return;
      onStep('connect');
      // What the look-up took is nothing that the endpoint has to make good.
      timeout.refresh();
    });
    socket.on('error', (error) => end(error, null));
    socket.once('close', () => clearTimeout(timeout));
    return socket;
  };
  return { dial, handshakes };
};
