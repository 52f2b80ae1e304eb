/** Connects to a host with several addresses (RFC 8305). */
import type { LookupAddress } from 'node:dns';
import { connect, type Socket } from 'node:net';

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
export class HappyEyeballs {
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
