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
type Network = { bytes: number; bodies: Map<IncomingMessage, number> };

/** The memory of the bodies that have not arrived whole. */
class ArrivingBodies {
  readonly #bytesMax: number;
  readonly #networks = new Map<string, Network>();
  #total = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(request: IncomingMessage, name: string): void {
    const network = this.#networks.get(name) ?? { bytes: 0, bodies: new Map() };
    this.#networks.set(name, network);
    network.bodies.set(request, 0);
  }

  /** Counts what the body takes now, and resets connections until all are within the limit. */
  count(request: IncomingMessage, name: string, bytes: number): void {
    const network = this.#networks.get(name);
    const before = network?.bodies.get(request);
    // What a reset connection had received before.
    if (network === undefined || before === undefined) return;
    network.bodies.set(request, bytes);
    network.bytes += bytes - before;
    this.#total += bytes - before;
    while (this.#total > this.#bytesMax && this.#resetOldest());
  }

  remove(request: IncomingMessage, name: string): void {
    const network = this.#networks.get(name);
    const bytes = network?.bodies.get(request);
    if (network === undefined || bytes === undefined) return;
    network.bodies.delete(request);
    network.bytes -= bytes;
    this.#total -= bytes;
    if (network.bodies.size === 0) this.#networks.delete(name);
  }

  /** Resets the oldest connection of the network that takes most, so that a stranger with many bodies resets none of other clients. */
  #resetOldest(): boolean {
    const [[name, { bodies }] = ['', { bodies: new Map<IncomingMessage, number>() }]] = [...this.#networks].toSorted(
      ([, a], [, b]) => b.bytes - a.bytes,
    );
    const [oldest] = bodies.keys();
    if (oldest === undefined) return false;
    this.remove(oldest, name);
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
    if (Number(headers['content-length']) > bodyLimit) return done(new Problem(413, TOO_LARGE));
    // The address is undefined after its client has disconnected.
    const network = addressPrefix(ip ?? '');
    let body: Buffer = Buffer.alloc(0);
    let [length, chunks] = [0, 0];
    const end = (error: Error | null): void => {
      payload.off('data', take).off('end', succeed).off('error', fail);
      arriving.remove(raw, network);
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
      arriving.count(raw, network, body.length);
    };
    // A request of this process to itself (raw-endpoint.ts) has its body in memory already.
    if ('resetAndDestroy' in raw.socket) arriving.add(raw, network);
    raw.once('close', () => arriving.remove(raw, network));
    payload.on('data', take).on('end', succeed).on('error', fail).resume();
  });
}
