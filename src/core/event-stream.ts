/**
 * Streams of server-sent events (WHATWG HTML, "Server-sent events"): how many may be open, the comments that keep an idle one open, the
 * check whether its reader may continue, and its end.
 */
import { Readable } from 'node:stream';
import type { Running } from './lifecycle.ts';
import type { Log } from './log.ts';
import { type Problem, temporary } from './problem.ts';

/** Why a stream ends, as sent to its reader. */
export type EndReason =
  /** The process stops: the client should reconnect. */
  | 'stopping'
  /** A newer stream has taken its place. */
  | 'replaced'
  | 'deleted'
  /** The token has expired or was revoked, or the session has ended. */
  | 'unauthorized'
  /** What it has to send cannot be made with the present settings. */
  | 'unusable';

/** Returns why the stream has to end; undefined if it may continue. Throws if that cannot be determined. */
export type FindEndReason = () => Promise<EndReason | undefined>;

export type StreamSettings = {
  streamsMax: number;
  streamsPerStoreMax: number;
  /** The delay after which a client reconnects. */
  retryMs: number;
  commentMs: number;
  recheckMs: number;
  /** A client that does not read the end is disconnected after this time. */
  closeTimeoutMs: number;
  bufferBytes: number;
};

const RETRY_AFTER_SECONDS = 5;

const refusal = (status: 429 | 503, code: string, message: string): Problem =>
  temporary(status, { code, message }, RETRY_AFTER_SECONDS);

export class EventStream {
  readonly storeId: number;
  readonly readable: Readable;
  readonly closed: Promise<void>;
  /** Settles with the running or most recent check. */
  checked: Promise<void>;
  readonly #settings: StreamSettings;
  readonly #log: Log;
  readonly #findEndReason: FindEndReason;
  readonly #timers: NodeJS.Timeout[];
  #isEnding = false;
  #isChecking = true;
  #onRead: () => void = () => {};

  /** `before`: the first check begins after this promise. */
  constructor(
    settings: StreamSettings,
    log: Log,
    { storeId, findEndReason, before }: { storeId: number; findEndReason: FindEndReason; before: Promise<void> },
  ) {
    this.#settings = settings;
    this.#log = log;
    this.storeId = storeId;
    this.#findEndReason = findEndReason;
    this.readable = new Readable({ highWaterMark: settings.bufferBytes, read: () => this.#onRead() });
    this.closed = new Promise((resolve) => this.readable.once('close', resolve));
    // A client that disconnects is not an error.
    this.readable.on('error', () => {});
    this.#timers = [
      setInterval(
        () => this.readable.readableLength === 0 && this.readable.push(': still here\n\n'),
        settings.commentMs,
      ),
      setInterval(() => this.check(), settings.recheckMs),
    ];
    this.readable.push(`retry: ${settings.retryMs}\n\n`);
    void this.closed.then(() => this.#close());
    this.checked = before.then(() => this.#check());
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /** Sends an event with these lines, such as `data: changed`; resolves when the client has read enough for the next one. */
  async send(...lines: string[]): Promise<void> {
    if (this.#isEnding) return;
    this.readable.push(`${lines.join('\n')}\n\n`);
    while (!this.#isEnding && this.readable.readableLength >= this.#settings.bufferBytes) {
      await new Promise<void>((resolve) => (this.#onRead = resolve));
    }
  }

  /** Checks at once, after a change, whether the reader may continue. */
  check(): void {
    if (!this.#isChecking) this.checked = this.#check();
  }

  /** Sends the reason and closes the stream. */
  end(reason: EndReason): void {
    if (this.#isEnding) return;
    this.#close();
    this.readable.push(`event: goodbye\ndata: ${JSON.stringify({ reason })}\n\n`);
    this.readable.push(null);
    const destroyTimer = setTimeout(() => this.readable.destroy(), this.#settings.closeTimeoutMs);
    void this.closed.then(() => clearTimeout(destroyTimer));
  }

  #close(): void {
    this.#isEnding = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#onRead();
  }

  async #check(): Promise<void> {
    if (this.#isEnding) return;
    this.#isChecking = true;
    try {
      const reason = await this.#findEndReason();
      if (reason !== undefined) this.end(reason);
    } catch (error) {
      // Unknown at the moment; the next check decides.
      this.#log.debug({ store: this.storeId, reason: String(error) }, 'stream check failed');
    }
    this.#isChecking = false;
  }
}

/** The open streams of one kind in a process. */
export class EventStreams implements Running {
  readonly #readers: string;
  readonly #settings: StreamSettings;
  readonly #log: Log;
  readonly #open = new Set<EventStream>();
  #isStopping = false;

  /** `readers` names the readers in messages, such as `listeners`. */
  constructor(readers: string, settings: StreamSettings, log: Log) {
    this.#readers = readers;
    this.#settings = settings;
    this.#log = log;
  }

  /**
   * Opens a stream, in place of `older`, whose last check ends before the first one of the new stream begins. Throws a 503 Problem if the
   * process stops or has its maximum of streams, and a 429 if the store has.
   */
  open(storeId: number, findEndReason: FindEndReason, older?: EventStream): EventStream {
    const { streamsMax, streamsPerStoreMax } = this.#settings;
    const readers = this.#readers;
    const others = [...this.#open].filter((one) => one !== older);
    if (this.#isStopping) throw refusal(503, 'unavailable', 'The service is stopping: try again shortly');
    if (others.length >= streamsMax)
      throw refusal(503, 'busy', `Too many ${readers} are connected: try again in a few seconds`);
    if (others.filter((one) => one.storeId === storeId).length >= streamsPerStoreMax)
      throw refusal(429, 'too_many_requests', `The store has reached its limit of ${readers}: close one of them first`);
    older?.end('replaced');
    const before = older?.checked ?? Promise.resolve();
    const stream = new EventStream(this.#settings, this.#log, { storeId, findEndReason, before });
    this.#open.add(stream);
    void stream.closed.then(() => this.#open.delete(stream));
    return stream;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const stream of this.#open) stream.end('stopping');
    await Promise.all([...this.#open].map(({ closed }) => closed));
  }
}
