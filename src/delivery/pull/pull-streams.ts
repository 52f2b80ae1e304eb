/**
 * The listeners of pull webhooks: a server-sent event per pending delivery, one stream per webhook, and the answers of the listeners.
 *
 * ```
 *   open ──► polling ──(pending deliveries, and the listener reads)──► sending ──► polling
 *              │ every `pollMs`, or on `wake`                             └ the listener does not read: waits with one message
 *              └──(stopping · replaced · deleted · unauthorized · unusable)──► goodbye ──► closed
 * ```
 *
 * A delivery ends with its answer: one that was sent and not answered is sent again by the next stream, not by this one.
 */
import type { Readable } from 'node:stream';
import { EventStreams, type EventStream, type FindEndReason, type StreamSettings } from '#core/event-stream.ts';
import type { Running } from '#core/lifecycle.ts';
import type { ListenerAnswer } from '#core/outcome.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { rowOf, unsentAttempt, type AttemptRow } from '../attempt/attempt.ts';
import { bodyOf, Composer, type ComposerSettings } from '../attempt/attempt-request.ts';
import { activeTarget, type ActiveTarget, type Mask } from '../attempt/delivery-target.ts';
import { kindOfStatus } from '../attempt/http/attempt-outcome.ts';
import { textOf } from '../attempt/http/response.ts';
import { loadEvents, loadTargets } from '../delivery-sql.ts';
import {
  endPullDelivery,
  findAnswer,
  listWaiting,
  type AnsweredRow,
  type PullWebhook,
  type Waiting,
  endUnfetched,
} from './pull-deliveries-sql.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import type { Ownership } from '../leases/ownership.ts';

// Listeners.

type StreamsRuntime = Pick<Runtime, 'sql' | 'sealer' | 'clock' | 'log'>;

/** `baseUrl` decides whether the body is encrypted, as the URL of a webhook does: the stream is served at this URL. */
type PullSettings = ComposerSettings &
  StreamSettings & {
    baseUrl: string;
    pollMs: number;
    unansweredMax: number;
    answerKeptBytes: number;
  };

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

type PullWebhookOfStore = PullWebhook & { storeId: number };

/** Composes the message of a pull delivery: the request that an endpoint would have received. */
class Messages {
  readonly #runtime: Pick<Runtime, 'sql' | 'sealer'>;
  readonly #baseUrl: string;
  readonly #composer: Composer;

  constructor(runtime: Pick<Runtime, 'sql' | 'sealer'>, settings: PullSettings) {
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
    { webhookId, storeId }: PullWebhookOfStore,
    { id, eventId }: Waiting,
    target: ActiveTarget,
    now: Date,
  ): Promise<PullMessage | { why: unknown } | undefined> {
    // Reads the table each time, without a cache, so that nothing erased is sent from memory.
    const [event] = await loadEvents(this.#runtime.sql, [{ storeId, eventId }]);
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

/** Sends the pending deliveries of one webhook on its stream. */
class PullStream {
  readonly stream: EventStream;
  readonly #runtime: StreamsRuntime;
  readonly #settings: PullSettings;
  readonly #messages: Messages;
  readonly #webhook: PullWebhookOfStore;
  #sent: number[] = [];
  /** Ends the wait for the next poll. */
  #resume: () => void = () => {};
  #isWakeRequested = false;

  constructor(
    runtime: StreamsRuntime,
    settings: PullSettings,
    { stream, messages, webhook }: { stream: EventStream; messages: Messages; webhook: PullWebhookOfStore },
  ) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.stream = stream;
    this.#messages = messages;
    this.#webhook = webhook;
    void stream.closed.then(() => this.wake());
    void this.#run();
  }

  /** Polls at once: there may be new deliveries, or an answer allows the next one. */
  wake(): void {
    this.#isWakeRequested = true;
    this.#resume();
  }

  async #run(): Promise<void> {
    while (!this.stream.isEnding) {
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
      if (!this.#isWakeRequested && !this.stream.isEnding) await this.#pause();
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
      if (this.stream.isEnding || target === undefined) return;
      const message = await messages.make(this.#webhook, delivery, target, clock.now());
      await this.#send(delivery, message);
    }
  }

  #unusable(error: unknown): undefined {
    this.#runtime.log.error({ err: error, webhook: this.#webhook.webhookId }, 'pull webhook unusable');
    this.stream.end('unusable');
  }

  async #send(delivery: Waiting, message: PullMessage | { why: unknown } | undefined): Promise<void> {
    const { sql, clock, log } = this.#runtime;
    if (message === undefined || 'why' in message) {
      const now = clock.now();
      if (message !== undefined) log.error({ err: message.why, delivery: delivery.id }, 'composing a delivery failed');
      const row = message === undefined ? null : rowOf(unsentAttempt('threw', message.why, now));
      return void (await endPullDelivery(sql, { ...this.#webhook, id: delivery.id }, row, now));
    }
    if (this.stream.isEnding) return;
    this.#sent.push(delivery.id);
    await this.stream.send(`id: ${delivery.id}`, 'event: delivery', `data: ${JSON.stringify(message)}`);
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

function answerRowOf(answer: ListenerAnswer, keptBytes: number, mask: Mask | undefined, now: Date): AttemptRow {
  const outcome = answer.code === null ? (answer.outcome ?? 'delivered') : kindOfStatus(answer.code);
  return {
    state: outcome === 'delivered' ? 'successful' : 'failed',
    startedAt: new Date(now.getTime() - answer.durationMs),
    durationMs: answer.durationMs,
    outcome,
    responseCode: answer.code,
    responseHeaders: answer.headers === null ? null : textOf(answer.headers, keptBytes, mask),
    responseBody: answer.body === null ? null : textOf(answer.body, keptBytes, mask),
    revision: null,
  };
}

const isSame = (row: AttemptRow, stored: AnsweredRow): boolean =>
  (['durationMs', 'outcome', 'responseCode', 'responseHeaders', 'responseBody'] as const).every(
    (name) => row[name] === stored[name],
  );

export class PullStreams implements Running {
  readonly #runtime: StreamsRuntime;
  readonly #settings: PullSettings;
  readonly #messages: Messages;
  readonly #streams: EventStreams;
  /** The newest of each webhook, until its last check has ended. */
  readonly #newest = new Map<number, PullStream>();

  constructor(runtime: StreamsRuntime, settings: PullSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#messages = new Messages(runtime, settings);
    this.#streams = new EventStreams('listeners', settings, runtime.log);
  }

  /** Opens a stream and ends the previous one of the webhook. Throws a 429 or 503 Problem if there are too many. */
  open(webhook: PullWebhookOfStore, findEndReason: FindEndReason): Readable {
    const { webhookId, storeId } = webhook;
    const stream = this.#streams.open(storeId, findEndReason, this.#newest.get(webhookId)?.stream);
    const opened = new PullStream(this.#runtime, this.#settings, { stream, messages: this.#messages, webhook });
    this.#newest.set(webhookId, opened);
    const isOver = stream.closed.then(() => stream.checked);
    void isOver.then(() => {
      if (this.#newest.get(webhookId) === opened) this.#newest.delete(webhookId);
    });
    return stream.readable;
  }

  /** Wakes the streams of these webhooks after new deliveries were committed. */
  wake(webhookIds: Iterable<number>): void {
    for (const id of webhookIds) this.#newest.get(id)?.wake();
  }

  /** Checks the stream of a changed or deleted webhook. */
  changed(webhookId: number): void {
    this.#newest.get(webhookId)?.stream.check();
  }

  /**
   * Records a listener's answer: the only attempt and the end of the delivery. It does not change the health of the
   * webhook. The same answer again changes nothing and returns the same attempt.
   */
  async answer(
    webhook: PullWebhook,
    deliveryId: number,
    answer: ListenerAnswer,
  ): Promise<AnsweredRow | 'answered_otherwise' | 'ended' | 'unknown'> {
    const { sql, clock, log } = this.#runtime;
    const now = clock.now();
    const target = await this.#messages.target(webhook);
    const row = answerRowOf(answer, this.#settings.answerKeptBytes, target?.mask, now);
    const delivery = { ...webhook, id: deliveryId };
    const isNew = await endPullDelivery(sql, delivery, row, now);
    const stored = await findAnswer(sql, delivery);
    // The answer allows another unanswered delivery.
    this.wake([webhook.webhookId]);
    if (typeof stored === 'string') return stored;
    if (!isSame(row, stored)) return 'answered_otherwise';
    if (isNew)
      log.info(
        { delivery: deliveryId, webhook: webhook.webhookId, outcome: row.outcome, exchangeMs: row.durationMs },
        'pull delivery answered',
      );
    return stored;
  }

  stop(): Promise<void> {
    return this.#streams.stop();
  }
}

// Deliveries that no listener will fetch: their webhook was deleted or disabled, or they are too old. No lane contains them, so the owner
// of their shard ends them whenever it polls for work.

/** Age limit: a pending delivery keeps the partitions of its day, which all stores share, from being dropped. */
type UnfetchedSettings = { unfetchedDays: number };

/** Rows per statement, which takes some 50 ms. */
const BATCH_ROWS = 2_000;

/** Runs one statement at a time, to leave the connections to others, and alternates between webhooks. */
export class Unfetched {
  readonly #runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>;
  readonly #ownership: Pick<Ownership, 'owns'>;
  readonly #settings: UnfetchedSettings;
  /** By webhook, the id after which its next page begins; the webhook that has waited longest comes first. */
  readonly #pending = new Map<number, { shard: number; after: number }>();
  #isRunning = false;

  constructor(
    runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>,
    ownership: Pick<Ownership, 'owns'>,
    settings: UnfetchedSettings,
  ) {
    this.#runtime = runtime;
    this.#ownership = ownership;
    this.#settings = settings;
  }

  /** Ends the deliveries of the webhook page by page. Does nothing if the webhook is queued already. */
  end(shard: number, webhookId: number): void {
    if (!this.#pending.has(webhookId)) this.#pending.set(webhookId, { shard, after: 0 });
    if (!this.#isRunning) void this.#run();
  }

  stop(): void {
    this.#pending.clear();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (const [webhookId, { shard, after }] of this.#pending) {
      const last = this.#ownership.owns(shard) ? await this.#endBatch({ shard, webhookId }, after) : null;
      // Queues it again until its last page, unless `stop` has emptied the queue.
      if (this.#pending.delete(webhookId) && last !== null) this.#pending.set(webhookId, { shard, after: last });
    }
    this.#isRunning = false;
  }

  /** Returns the id after which the next page begins; null after the last one. */
  async #endBatch(webhook: PullWebhook, after: number): Promise<number | null> {
    const { sql, clock, log } = this.#runtime;
    const now = clock.now();
    const oldest = firstIdOfDay(dayOf(now) - this.#settings.unfetchedDays);
    try {
      const { ended, last } = await endUnfetched(sql, webhook, { after, limit: BATCH_ROWS, oldest }, now);
      return ended === BATCH_ROWS ? last : null;
    } catch (error) {
      // Does not prevent other work: the next poll tries again.
      log.warn({ webhook: webhook.webhookId, reason: String(error) }, 'ending unfetched pull deliveries failed');
      return null;
    }
  }
}
