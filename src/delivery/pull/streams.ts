/** The open streams of a process, one per webhook, and the answers of their listeners. */
import type { Readable } from 'node:stream';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { OutcomeLabel } from '#core/outcome.ts';
import type { AttemptRow } from '../attempt/attempt.ts';
import { kindOfStatus } from '../attempt/http/attempt-outcome.ts';
import { textOf } from '../attempt/http/response.ts';
import type { Mask } from '../attempt/mask.ts';
import { findAnswer, writeAnswer, type AnsweredRow, type PullWebhook } from './pull-deliveries-sql.ts';
import { Messages, PullStream, type FindEndReason, type MessageSettings, type StreamSettings } from './stream.ts';

type StreamsRuntime = Pick<Runtime, 'sql' | 'sealer' | 'clock' | 'log'>;

type StreamsSettings = MessageSettings &
  StreamSettings & { streamsMax: number; streamsPerStoreMax: number; answerKeptBytes: number };

export type Opened =
  | { kind: 'open'; readable: Readable }
  /** Refused: `full` if the process has its maximum of streams, `too_many` if the store has. */
  | { kind: 'full' | 'too_many' | 'stopping' };

/**
 * If `code` is null there was no response: `outcome` says why, or is null if the delivery was only displayed, which
 * counts as delivered.
 */
type ListenerReply = {
  code: number | null;
  outcome: OutcomeLabel | null;
  durationMs: number;
  headers: string | null;
  body: string | null;
};

type AnswerResult =
  | { kind: 'answered'; attempt: AnsweredRow }
  /** `answered_otherwise`: a different answer was recorded before. `ended`: it ended without an answer. */
  | { kind: 'answered_otherwise' | 'ended' }
  | { kind: 'unknown' };

function rowOf(reply: ListenerReply, keptBytes: number, mask: Mask | undefined, now: Date): AttemptRow {
  const outcome = reply.code === null ? (reply.outcome ?? 'delivered') : kindOfStatus(reply.code);
  return {
    state: outcome === 'delivered' ? 'successful' : 'failed',
    startedAt: new Date(now.getTime() - reply.durationMs),
    durationMs: reply.durationMs,
    outcome,
    responseCode: reply.code,
    responseHeaders: reply.headers === null ? null : textOf(reply.headers, keptBytes, mask),
    responseBody: reply.body === null ? null : textOf(reply.body, keptBytes, mask),
  };
}

const isSame = (row: AttemptRow, stored: AnsweredRow): boolean =>
  (['durationMs', 'outcome', 'responseCode', 'responseHeaders', 'responseBody'] as const).every(
    (name) => row[name] === stored[name],
  );

export class PullStreams implements Running {
  readonly #runtime: StreamsRuntime;
  readonly #settings: StreamsSettings;
  readonly #messages: Messages;
  readonly #streams = new Map<number, { stream: PullStream; storeId: number }>();
  #isStopping = false;

  constructor(runtime: StreamsRuntime, settings: StreamsSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#messages = new Messages(runtime, settings);
  }

  /** Opens a stream and ends the previous one of the webhook. */
  open(webhook: PullWebhook & { storeId: number }, findEndReason: FindEndReason): Opened {
    const { webhookId, storeId } = webhook;
    const { streamsMax, streamsPerStoreMax } = this.#settings;
    if (this.#isStopping) return { kind: 'stopping' };
    const older = this.#streams.get(webhookId);
    const others = [...this.#streams.values()].filter((one) => one !== older);
    if (others.length >= streamsMax) return { kind: 'full' };
    if (others.filter((one) => one.storeId === storeId).length >= streamsPerStoreMax) return { kind: 'too_many' };
    older?.stream.end('replaced');
    const before = older?.stream.checked ?? Promise.resolve();
    const opening = { messages: this.#messages, webhook, findEndReason, before };
    const stream = new PullStream(this.#runtime, this.#settings, opening);
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

  /**
   * Records a listener's answer: the only attempt and the end of the delivery. It does not change the health of the
   * webhook. The same answer again changes nothing and returns the same result.
   */
  async answer(webhook: PullWebhook, deliveryId: number, reply: ListenerReply): Promise<AnswerResult> {
    const { sql, clock, log } = this.#runtime;
    const now = clock.now();
    const target = await this.#messages.target(webhook);
    const row = rowOf(reply, this.#settings.answerKeptBytes, target?.mask, now);
    const delivery = { ...webhook, id: deliveryId };
    const isNew = await writeAnswer(sql, delivery, row, now);
    const stored = await findAnswer(sql, delivery);
    // The answer allows another unanswered delivery.
    this.wake([webhook.webhookId]);
    if (stored === undefined) return { kind: 'unknown' };
    if (stored === 'ended') return { kind: 'ended' };
    if (!isSame(row, stored)) return { kind: 'answered_otherwise' };
    if (isNew)
      log.info(
        { delivery: deliveryId, webhook: webhook.webhookId, outcome: row.outcome, exchangeMs: row.durationMs },
        'pull delivery answered',
      );
    return { kind: 'answered', attempt: stored };
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const open = [...this.#streams.values()].map(({ stream }) => stream);
    for (const stream of open) stream.end('stopping');
    await Promise.all(open.map(({ closed }) => closed));
  }
}
