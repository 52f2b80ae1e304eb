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
import type { Runtime } from '#runtime/runtime.ts';
import { rowOf, unsentAttempt } from '../attempt/attempt.ts';
import { bodyOf, Composer, type ComposerSettings } from '../attempt/attempt-request.ts';
import { activeTarget, type ActiveTarget } from '../attempt/delivery-target.ts';
import { loadEvents, loadTargets } from '../delivery-sql.ts';
import { endEmpty, listWaiting, writeAnswer, type PullWebhook, type Waiting } from './pull-deliveries-sql.ts';

/** `baseUrl` decides whether the body is encrypted, as the URL of a webhook does: the stream is served at this URL. */
export type MessageSettings = ComposerSettings & { baseUrl: string };

/** `body` is base64 of the exact bytes that are signed, encrypted or not. */
type PullMessage = {
  delivery_id: number;
  event_id: number;
  attempt: 1;
  method: 'POST';
  headers: Readonly<Record<string, string>>;
  body: string;
  /** The URL to which the listener posts its answer. */
  answer: string;
};

function recordOf(headers: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {};
  for (let at = 0; at < headers.length; at += 2) record[headers[at] ?? ''] = headers[at + 1] ?? '';
  return record;
}

/** Composes the message of a pull delivery: the request that an endpoint would have received. */
export class Messages {
  readonly #runtime: Pick<Runtime, 'sql' | 'sealer'>;
  readonly #baseUrl: string;
  readonly #composer: Composer;

  constructor(runtime: Pick<Runtime, 'sql' | 'sealer'>, settings: MessageSettings) {
    this.#runtime = runtime;
    this.#baseUrl = settings.baseUrl;
    this.#composer = new Composer(settings);
  }

  /** Returns the current settings; undefined if the webhook is deleted. Throws if its key cannot be decrypted. */
  async target({ shard, webhookId }: PullWebhook): Promise<ActiveTarget | undefined> {
    const { sql, sealer } = this.#runtime;
    const [row] = await loadTargets(sql, [shard], [webhookId]);
    return row === undefined ? undefined : activeTarget(row, sealer, this.#baseUrl);
  }

  /** Returns undefined if the event was erased or dropped, and `why` if the message cannot be composed. */
  async make(
    { shard, webhookId }: PullWebhook,
    { id, eventId }: Waiting,
    target: ActiveTarget,
    now: Date,
  ): Promise<PullMessage | { why: unknown } | undefined> {
    // Reads the table each time, without a cache, so that nothing erased is sent from memory.
    const [event] = await loadEvents(this.#runtime.sql, [shard], [eventId]);
    if (event === undefined) return undefined;
    try {
      const made = this.#composer.compose({ webhookId, target, attempt: 1, now }, bodyOf(event));
      return {
        delivery_id: id,
        event_id: eventId,
        attempt: 1,
        method: 'POST',
        headers: recordOf(made.headers),
        body: Buffer.from(made.body).toString('base64'),
        answer: `${this.#baseUrl}/webhooks/${webhookId}/statuses/${id}/answer`,
      };
    } catch (why) {
      return { why };
    }
  }
}

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

type StreamRuntime = Pick<Runtime, 'sql' | 'clock' | 'log'>;

type Opening = {
  messages: Messages;
  webhook: PullWebhook;
  findEndReason: FindEndReason;
  /** The last check of the replaced stream, which must not write its start after this one's. */
  before: Promise<void>;
};

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
  readonly #runtime: StreamRuntime;
  readonly #settings: StreamSettings;
  readonly #messages: Messages;
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

  constructor(runtime: StreamRuntime, settings: StreamSettings, { messages, webhook, findEndReason, before }: Opening) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#messages = messages;
    this.#webhook = webhook;
    this.#findEndReason = findEndReason;
    const { bufferBytes, commentMs, recheckMs, retryMs } = settings;
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
    const destroyTimer = setTimeout(() => this.readable.destroy(), this.#settings.closeTimeoutMs);
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
      const reason = await this.#findEndReason(this.#runtime.clock.now());
      if (reason !== undefined) this.end(reason);
    } catch (error) {
      // Unknown at the moment; the next check decides.
      this.#runtime.log.debug({ webhook: this.#webhook.webhookId, reason: String(error) }, 'listener check failed');
    }
    this.#isChecking = false;
  }

  async #run(): Promise<void> {
    while (!this.#isEnding) {
      this.#isWakeRequested = false;
      try {
        await this.#sendWaiting();
      } catch (error) {
        const { log } = this.#runtime;
        log.warn(
          { webhook: this.#webhook.webhookId, reason: String(error) },
          'reading deliveries for a listener failed',
        );
      }
      if (!this.#isWakeRequested && !this.#isEnding) await this.#pause();
    }
  }

  async #sendWaiting(): Promise<void> {
    const { sql, clock } = this.#runtime;
    const messages = this.#messages;
    const waiting = await listWaiting(sql, this.#webhook, this.#sent, this.#settings.unansweredMax);
    this.#sent = waiting.filter(({ isSent }) => isSent).map(({ id }) => id);
    // Ids of deliveries are allocated per connection in blocks, so events are sent in the order of their own ids.
    const unsent = waiting.filter(({ isSent }) => !isSent).toSorted((a, b) => a.eventId - b.eventId);
    if (unsent.length === 0) return;
    const target = await messages.target(this.#webhook).catch((error: unknown) => this.#unusable(error));
    for (const delivery of unsent) {
      if (this.#isEnding || target === undefined) return;
      const message = await messages.make(this.#webhook, delivery, target, clock.now());
      await this.#send(delivery, message);
    }
  }

  #unusable(error: unknown): undefined {
    this.#runtime.log.error({ err: error, webhook: this.#webhook.webhookId }, 'pull webhook unusable');
    this.end('unusable');
  }

  async #send(delivery: Waiting, message: PullMessage | { why: unknown } | undefined): Promise<void> {
    const { sql, clock, log } = this.#runtime;
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
    while (!this.#isEnding && this.readable.readableLength >= this.#settings.bufferBytes) {
      await new Promise<void>((resolve) => (this.#onRead = resolve));
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#settings.pollMs);
      this.#resume = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
