/** The open streams of a process, one per webhook, and the answers of their listeners. */
import type { Readable } from 'node:stream';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { answer, type AnswerResult, type ListenerReply } from './answer.ts';
import { Messages, type MessagesDeps } from './message.ts';
import type { PullWebhook } from './pull-sql.ts';
import { PullStream, type FindEndReason, type StreamSettings } from './stream.ts';

type Settings = MessagesDeps['settings'] &
  StreamSettings & { streamsMax: number; streamsPerStoreMax: number; answerKeptBytes: number };

export type StreamsDeps = Omit<MessagesDeps, 'settings'> & { clock: Clock; log: Log; sql: Sql; settings: Settings };

export type Opened =
  | { kind: 'open'; readable: Readable }
  /** Refused: `full` if the process has its maximum of streams, `too_many` if the store has. */
  | { kind: 'full' | 'too_many' | 'stopping' };

export class PullStreams implements Running {
  readonly #deps: StreamsDeps;
  readonly #messages: Messages;
  readonly #streams = new Map<number, { stream: PullStream; storeId: number }>();
  #isStopping = false;

  constructor(deps: StreamsDeps) {
    this.#deps = deps;
    this.#messages = new Messages(deps);
  }

  /** Opens a stream and ends the previous one of the webhook. */
  open(webhook: PullWebhook & { storeId: number }, findEndReason: FindEndReason): Opened {
    const { webhookId, storeId } = webhook;
    const { streamsMax, streamsPerStoreMax } = this.#deps.settings;
    if (this.#isStopping) return { kind: 'stopping' };
    const older = this.#streams.get(webhookId);
    const others = [...this.#streams.values()].filter((one) => one !== older);
    if (others.length >= streamsMax) return { kind: 'full' };
    if (others.filter((one) => one.storeId === storeId).length >= streamsPerStoreMax) return { kind: 'too_many' };
    older?.stream.end('replaced');
    const deps = { ...this.#deps, messages: this.#messages };
    const stream = new PullStream(deps, webhook, findEndReason, older?.stream.checked ?? Promise.resolve());
    const entry = { stream, storeId };
    this.#streams.set(webhookId, entry);
    const isOver = stream.closed.then(() => stream.checked);
    void isOver.then(() => {
      if (this.#streams.get(webhookId) === entry) this.#streams.delete(webhookId);
    });
    return { kind: 'open', readable: stream.readable };
  }

  /** Wakes the streams of these webhooks after new deliveries were committed. */
  wake(webhookIds: Iterable<number>): void {
    for (const id of webhookIds) this.#streams.get(id)?.stream.wake();
  }

  /** Checks the stream of a changed or deleted webhook. */
  changed(webhookId: number): void {
    this.#streams.get(webhookId)?.stream.check();
  }

  async answer(webhook: PullWebhook, deliveryId: number, reply: ListenerReply): Promise<AnswerResult> {
    const { sql, clock, log, settings } = this.#deps;
    const answered = await answer({ sql, log, ...settings }, { ...webhook, id: deliveryId }, reply, clock.now());
    // The answer allows another unanswered delivery.
    this.wake([webhook.webhookId]);
    return answered;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const open = [...this.#streams.values()].map(({ stream }) => stream);
    for (const stream of open) stream.end('stopping');
    await Promise.all(open.map(({ closed }) => closed));
  }
}
