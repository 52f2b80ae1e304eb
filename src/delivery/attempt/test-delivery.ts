/**
 * Test deliveries: sent once, immediately and outside of the lanes, with the same guard, format, signatures and
 * time-outs, even to a disabled or paused webhook. They do not change the webhook's health and need no worker; a
 * stopping process discards running ones.
 */
import { sentAction } from '#catalog/sample.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { exchangeOf, type SendSettings } from './send.ts';
import { Connections, type ConnectionSettings } from './http/connections.ts';
import type { Exchange } from './http/exchange.ts';
import type { Guard } from './http/guard.ts';
import { labelOf, type Outcome } from './http/outcome.ts';
import { loadTargets } from './target-sql.ts';
import { targetOf, type ActiveTarget } from './target.ts';
import { Bodies } from './bodies.ts';
import type { EventRow } from './event-sql.ts';
import { lockWebhook, insertTestDelivery, type TestAttemptRow } from './test-delivery-sql.ts';

type TestDeliverySettings = SendSettings &
  ConnectionSettings & { testDeliveriesAtOnce: number; bodyCacheBytes: number; relationPrefix: string };

export type TestDeliveryDeps = {
  sql: Sql;
  guard: Guard;
  sealer: Sealer;
  clock: Clock;
  log: Log;
  settings: TestDeliverySettings;
};

/** The event to send: created before it is sent, and stored in the transaction that records the attempt. */
export type Sample<Event extends EventRow> = {
  make: () => Promise<Event>;
  keep: (tx: Tx, event: Event) => Promise<void>;
};

type Key = { shard: number; id: number };

export type TestResult =
  | { kind: 'sent'; event: EventRow; deliveryId: number; attempt: TestAttemptRow }
  /** Refused: this process is already testing the webhook (`under_way`), or has reached its limit (`full`). */
  | { kind: 'under_way' }
  | { kind: 'full' }
  /** The webhook is deleted, or has no URL. */
  | { kind: 'nowhere' }
  | { kind: 'stopping' };

type Sent = { outcome: Outcome; startedAt: Date; durationMs: number };

export class TestDeliveries implements Running {
  readonly #deps: TestDeliveryDeps;
  readonly #connections: Connections;
  readonly #bodies: Bodies;
  /** By webhook; null until its exchange has begun. */
  readonly #running = new Map<number, Exchange | null>();
  #isStopping = false;

  constructor(deps: TestDeliveryDeps) {
    this.#deps = deps;
    this.#connections = new Connections(deps);
    this.#bodies = new Bodies({ sql: deps.sql, ...deps.settings });
  }

  /** Sends a test delivery; resolves when the endpoint has responded or timed out. */
  async send<Event extends EventRow>(webhook: Key, sample: Sample<Event>): Promise<TestResult> {
    if (this.#isStopping) return { kind: 'stopping' };
    if (this.#running.has(webhook.id)) return { kind: 'under_way' };
    if (this.#running.size >= this.#deps.settings.testDeliveriesAtOnce) return { kind: 'full' };
    this.#running.set(webhook.id, null);
    try {
      return await this.#send(webhook, sample);
    } finally {
      // Stops the exchange if the transaction failed meanwhile.
      this.#running.get(webhook.id)?.abort();
      this.#running.delete(webhook.id);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const exchange of this.#running.values()) exchange?.abort();
    await this.#connections.stop();
  }

  async #send<Event extends EventRow>(webhook: Key, sample: Sample<Event>): Promise<TestResult> {
    const { sql, clock, log } = this.#deps;
    const event = await sample.make();
    const started = await this.#start(webhook, event);
    if (started === undefined) return { kind: 'nowhere' };
    const sent = await started.sent;
    if (sent === undefined) return { kind: 'stopping' };
    const attempt = rowOf(webhook, event, sent, clock.now());
    const deliveryId = await transaction(sql, async (tx) => {
      await sample.keep(tx, event);
      return insertTestDelivery(tx, attempt);
    });
    const { outcome, durationMs } = attempt;
    log.info(
      { delivery: deliveryId, webhook: webhook.id, store: event.storeId, outcome, exchangeMs: durationMs },
      'test delivery sent',
    );
    return { kind: 'sent', event, deliveryId, attempt };
  }

  /**
   * Starts the exchange while the webhook's row is locked, so that none starts after a deletion is committed; a
   * deletion waits for the start only, not for the response. Returns undefined if there is no URL.
   */
  async #start(webhook: Key, event: EventRow): Promise<{ sent: Promise<Sent | undefined> } | undefined> {
    return transaction(this.#deps.sql, async (tx) => {
      if (!(await lockWebhook(tx, webhook))) return undefined;
      const [row] = await loadTargets(tx, webhook.shard, [webhook.id]);
      if (row === undefined || row.url === null) return undefined;
      // Sent even if the webhook is disabled; a key that cannot be decrypted is an internal error.
      const target = () => targetOf({ ...row, isActive: true }, this.#deps.sealer);
      return { sent: this.#exchange(webhook, event, target) };
    });
  }

  /** Starts before it returns. Resolves with undefined if it was aborted because the process stops. */
  async #exchange(
    { shard, id }: Key,
    event: EventRow,
    target: () => ReturnType<typeof targetOf>,
  ): Promise<Sent | undefined> {
    const { clock, log, settings } = this.#deps;
    const startedAt = clock.now();
    const startedMs = clock.monotonicMs();
    let exchange: Exchange;
    try {
      const active = target();
      if (!active.isActive) throw new Error('A webhook with a url has no target');
      exchange = exchangeOf(
        { lane: laneOf(shard, id, active), target: active, delivery: { attempts: 0 } },
        { event: { ...event, action: sentAction(event.action) }, rendered: null },
        startedAt,
        { bodies: this.#bodies, connections: this.#connections, clock, settings, mayBegin: () => !this.#isStopping },
      );
    } catch (error) {
      log.error({ err: error, webhook: id }, 'sending a test delivery failed');
      return { outcome: { kind: 'threw', why: String(error), reply: null }, startedAt, durationMs: 0 };
    }
    this.#running.set(id, exchange);
    try {
      const outcome = await exchange.outcome;
      return { outcome, startedAt, durationMs: clock.monotonicMs() - startedMs };
    } catch {
      // Only `Aborted` is rejected.
      return undefined;
    }
  }
}

/** The parts of a lane that sending needs; the target does not change meanwhile. */
const laneOf = (shard: number, webhookId: number, target: ActiveTarget) => ({
  shard,
  webhookId,
  target,
});

const rowOf = (webhook: Key, event: EventRow, { outcome, startedAt, durationMs }: Sent, now: Date): TestAttemptRow => ({
  shard: webhook.shard,
  day: dayOf(now),
  storeId: event.storeId,
  webhookId: webhook.id,
  eventId: event.id,
  state: outcome.kind === 'delivered' ? 'successful' : 'failed',
  startedAt,
  durationMs: Math.round(durationMs),
  outcome: labelOf(outcome),
  responseCode: outcome.reply?.code ?? null,
  responseHeaders: outcome.reply?.headers ?? null,
  responseBody: outcome.reply?.body ?? null,
  now,
});
