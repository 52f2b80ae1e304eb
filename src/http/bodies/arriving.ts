/** Reads request bodies within limits: clients that send a part and wait, or single bytes, must not exhaust memory or processor. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { addressPrefix } from '#core/address-prefix.ts';
import { Problem } from '#core/problem.ts';

/** A chunk takes Node a microsecond and 400 bytes, however small it is: a megabyte of single bytes took a second. */
const CHUNK_BYTES_MIN = 64;
/** More than an honest client sends in small ones, such as the lines of a head. */
const FREE_CHUNKS = 1_024;

const TOO_LARGE = { code: 'too_large', message: 'The body is too large' };
const TOO_MANY_CHUNKS = {
  code: 'too_large',
  message: `The body arrives in too many small chunks: send at least ${CHUNK_BYTES_MIN} bytes in each`,
};

/** What the bodies of a network take, the oldest first. */
type Network = { bytes: number; bodies: Set<IncomingMessage> };

/** The memory of the bodies of which a part has arrived. */
class ArrivingBodies {
  readonly #bytesMax: number;
  readonly #networks = new Map<string, Network>();
  readonly #bodies = new Map<IncomingMessage, { network: string; bytes: number }>();
  #total = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts what the body takes now, and resets connections until all are within the limit. */
  count(request: IncomingMessage, network: string, bytes: number): void {
    const all = this.#networks.get(network) ?? { bytes: 0, bodies: new Set() };
    const more = bytes - (this.#bodies.get(request)?.bytes ?? 0);
    this.#networks.set(network, all);
    this.#bodies.set(request, { network, bytes });
    all.bodies.add(request);
    all.bytes += more;
    this.#total += more;
    while (this.#total > this.#bytesMax && this.#resetOldest());
  }

  remove(request: IncomingMessage): void {
    const { network, bytes } = this.#bodies.get(request) ?? { network: '', bytes: 0 };
    const all = this.#networks.get(network);
    if (all === undefined || !this.#bodies.delete(request)) return;
    all.bodies.delete(request);
    all.bytes -= bytes;
    this.#total -= bytes;
    if (all.bodies.size === 0) this.#networks.delete(network);
  }

  /** Resets the oldest connection of the network that takes most, so that a stranger with many bodies resets none of other clients. */
  #resetOldest(): boolean {
    let largest: Network | undefined;
    for (const network of this.#networks.values())
      if (largest === undefined || network.bytes > largest.bytes) largest = network;
    const [oldest] = largest?.bodies ?? [];
    if (oldest === undefined) return false;
    this.remove(oldest);
    oldest.socket.resetAndDestroy();
    return true;
  }
}

/**
 * Gives handlers the body of a request as one Buffer, of at most the limit of its route. All bodies that have not arrived whole take at most
 * `arrivingBytesMax`.
 */
export function readBodies(app: FastifyInstance, { arrivingBytesMax }: { arrivingBytesMax: number }): void {
  const arriving = new ArrivingBodies(arrivingBytesMax);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', ({ raw, ip, headers, routeOptions }, payload, done) => {
    const { bodyLimit } = routeOptions;
    const declared = Number(headers['content-length']);
    if (declared > bodyLimit) return done(new Problem(413, TOO_LARGE));
    let body: Buffer = Buffer.alloc(0);
    let [length, chunks] = [0, 0];
    let network: string | undefined;
    const end = (error: Error | null): void => {
      payload.off('data', take).off('end', succeed).off('error', fail);
      arriving.remove(raw);
      done(error, body.subarray(0, length));
    };
    const succeed = (): void => end(null);
    const fail = (error: Error): void => end(Object.assign(error, { statusCode: 400 }));
    const take = (chunk: Buffer): void => {
      chunks += 1;
      if (length + chunk.length > bodyLimit) return end(new Problem(413, TOO_LARGE));
      if (chunks > FREE_CHUNKS + bodyLimit / CHUNK_BYTES_MIN) return end(new Problem(413, TOO_MANY_CHUNKS));
      // Most bodies are one chunk.
      if (length === 0) body = chunk;
      else {
        if (body.length < length + chunk.length) {
          const grown = Buffer.allocUnsafeSlow(Math.min(bodyLimit, 2 * (length + chunk.length)));
          body.copy(grown, 0, 0, length);
          body = grown;
        }
        chunk.copy(body, length);
      }
      length += chunk.length;
      // A request of this process to itself (raw-endpoint.ts) has its body in memory already, and a connection that was reset has no address.
      if (length === declared || !('resetAndDestroy' in raw.socket) || raw.socket.remoteAddress === undefined) return;
      network ??= addressPrefix(ip);
      arriving.count(raw, network, body.length);
    };
    raw.once('close', () => arriving.remove(raw));
    payload.on('data', take).on('end', succeed).on('error', fail).resume();
  });
}
