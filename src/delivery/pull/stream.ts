/**
 * The stream of one listener: a server-sent event per pending delivery of its webhook, until either side ends it.
 *
 * ```
 *   open ──► polling ──(pending deliveries, and the listener reads)──► sending ──► polling
 *              │ every `pollMs`, or on `wake`                             └ the listener does not read: waits with one message
 *              └──(stopping · replaced · deleted · unauthorized · unusable)──► goodbye ──► closed
 * ```
 *
 * A delivery ends with its answer: one that was sent and not answered is sent again by the next stream, not by this one.
 * The format is that of server-sent events (WHATWG HTML, "Parsing an event stream"), their data JSON without line breaks.
 */
import { Readable } from 'node:stream';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { rowOf, unsentAttempt } from '../attempt/attempt.ts';
import type { PullMessage, Messages } from './message.ts';
import { endEmpty, listWaiting, writeAnswer, type PullWebhook, type Waiting } from './pull-sql.ts';

export type StreamSettings = {
  pollMs: number;
  commentMs: number;
  recheckMs: number;
  retryMs: number;
  closeTimeoutMs: number;
  unansweredMax: number;
  bufferBytes: number;
};

/** Why a stream ends, as sent to its listener. */
export type Goodbye =
  /** The process stops: the client should reconnect. */
  | 'stopping'
  /** The webhook has a newer stream. */
  | 'replaced'
  | 'deleted'
  /** The token has expired or was revoked. */
  | 'unauthorized'
  /** The webhook's key cannot be decrypted. */
  | 'unusable';

/**
 * Called at the start and every `recheckMs`: returns why the stream has to end, undefined if it may continue. Throws if
 * that cannot be determined.
 */
export type FindEndReason = (now: Date) => Promise<Goodbye | undefined>;

type StreamDeps = { sql: Sql; clock: Clock; log: Log; messages: Messages; settings: StreamSettings };

/** A comment line that keeps an idle stream open. */
const COMMENT = ': still here\n\n';

function eventText(event: string, data: unknown, id?: number): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

export class PullStream {
  readonly readable: Readable;
  readonly closed: Promise<void>;
  /** Settles with the running or most recent check. */
  checked: Promise<void>;
  readonly #deps: StreamDeps;
  readonly #webhook: PullWebhook;
  readonly #findEndReason: FindEndReason;
  readonly #timers: NodeJS.Timeout[];
  #sent: number[] = [];
  #isEnding = false;
  #isChecking = true;
  /** End the current wait: for the next poll, and for the listener to read. */
  #resume: () => void = () => {};
  #onRead: () => void = () => {};
  #isWakeRequested = false;

  /** `before`: the last check of the replaced stream, which must not write its start after this one's. */
  constructor(deps: StreamDeps, webhook: PullWebhook, findEndReason: FindEndReason, before: Promise<void>) {
    this.#deps = deps;
    this.#webhook = webhook;
    this.#findEndReason = findEndReason;
    const { bufferBytes, commentMs, recheckMs, retryMs } = deps.settings;
    this.readable = new Readable({ highWaterMark: bufferBytes, read: () => this.#onRead() });
    this.closed = new Promise((resolve) => this.readable.once('close', resolve));
    // A client that disconnects is not an error.
    this.readable.on('error', () => {});
    this.#timers = [
      setInterval(() => this.readable.readableLength === 0 && this.readable.push(COMMENT), commentMs),
      setInterval(() => this.check(), recheckMs),
    ];
    // The delay after which a client reconnects.
    this.readable.push(`retry: ${retryMs}\n\n`);
    void this.closed.then(() => this.#close());
    this.checked = before.then(() => this.#check());
    void this.#run();
  }

  /** Polls at once: there may be new deliveries, or an answer allows the next one. */
  wake(): void {
    this.#isWakeRequested = true;
    this.#resume();
  }

  /** Runs the check at once, after a change of the webhook. */
  check(): void {
    if (!this.#isChecking) this.checked = this.#check();
  }

  /** Sends the reason and closes the stream; a client that does not read is disconnected after `closeTimeoutMs`. */
  end(reason: Goodbye): void {
    if (this.#isEnding) return;
    this.#close();
    this.readable.push(eventText('goodbye', { reason }));
    this.readable.push(null);
    const destroyTimer = setTimeout(() => this.readable.destroy(), this.#deps.settings.closeTimeoutMs);
    void this.closed.then(() => clearTimeout(destroyTimer));
  }

  #close(): void {
    this.#isEnding = true;
    for (const timer of this.#timers) clearInterval(timer);
    this.#resume();
    this.#onRead();
  }

  async #check(): Promise<void> {
    if (this.#isEnding) return;
    this.#isChecking = true;
    try {
      const reason = await this.#findEndReason(this.#deps.clock.now());
      if (reason !== undefined) this.end(reason);
    } catch (error) {
      // Unknown at the moment; the next check decides.
      this.#deps.log.debug({ webhook: this.#webhook.webhookId, reason: String(error) }, 'listener check failed');
    }
    this.#isChecking = false;
  }

  async #run(): Promise<void> {
    while (!this.#isEnding) {
      this.#isWakeRequested = false;
      try {
        await this.#sendWaiting();
      } catch (error) {
        const { log } = this.#deps;
        log.warn(
          { webhook: this.#webhook.webhookId, reason: String(error) },
          'reading deliveries for a listener failed',
        );
      }
      if (!this.#isWakeRequested && !this.#isEnding) await this.#pause();
    }
  }

  async #sendWaiting(): Promise<void> {
    const { sql, messages, settings } = this.#deps;
    const waiting = await listWaiting(sql, this.#webhook, this.#sent, settings.unansweredMax);
    this.#sent = waiting.filter(({ isSent }) => isSent).map(({ id }) => id);
    // Ids of deliveries are allocated per connection in blocks, so events are sent in the order of their own ids.
    const unsent = waiting.filter(({ isSent }) => !isSent).toSorted((a, b) => a.eventId - b.eventId);
    if (unsent.length === 0) return;
    const target = await messages.target(this.#webhook).catch((error: unknown) => this.#unusable(error));
    for (const delivery of unsent) {
      if (this.#isEnding || target === undefined) return;
      const message = await messages.make(this.#webhook, delivery, target, this.#deps.clock.now());
      await this.#send(delivery, message);
    }
  }

  #unusable(error: unknown): undefined {
    this.#deps.log.error({ err: error, webhook: this.#webhook.webhookId }, 'pull webhook unusable');
    this.end('unusable');
  }

  async #send(delivery: Waiting, message: PullMessage | { why: unknown } | undefined): Promise<void> {
    const { sql, clock, log } = this.#deps;
    const { shard } = this.#webhook;
    if (message === undefined) return endEmpty(sql, { shard, id: delivery.id }, clock.now());
    if ('why' in message) {
      log.error({ err: message.why, delivery: delivery.id }, 'composing a delivery failed');
      const now = clock.now();
      const row = rowOf(unsentAttempt('threw', message.why, now));
      return void (await writeAnswer(sql, { ...this.#webhook, id: delivery.id }, row, now));
    }
    if (this.#isEnding) return;
    this.#sent.push(delivery.id);
    if (!this.readable.push(eventText('delivery', message, delivery.id))) await this.#waitUntilRead();
  }

  /** Resolves when the listener has read its messages, or the stream ends. */
  async #waitUntilRead(): Promise<void> {
    while (!this.#isEnding && this.readable.readableLength >= this.#deps.settings.bufferBytes) {
      await new Promise<void>((resolve) => (this.#onRead = resolve));
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#deps.settings.pollMs);
      this.#resume = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
