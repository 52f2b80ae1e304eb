/**
 * Test deliveries: sent once, immediately and outside of the lanes, with the same guard, format, signatures and
 * time-outs, even to a disabled or paused webhook. They do not change the webhook's health and need no worker; a
 * stopping process discards running ones.
 */
import { transaction, type Tx } from '#db/pool.ts';
import { dayOf } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { attempt, rowOf, unsentAttempt, type RunningAttempt, type ExchangeLimits } from './attempt.ts';
import { type EventRow, loadTargets, lockWebhook, insertTestDelivery, type TestAttemptRow } from '../delivery-sql.ts';
import { Connections, type ConnectionSettings } from './http/endpoint-connections.ts';
import { bodyOf, Composer, type ComposerSettings } from './attempt-request.ts';
import { activeTarget, type TargetRow } from './delivery-target.ts';

type TestDeliverySettings = ExchangeLimits &
  Omit<ConnectionSettings, 'idleSockets'> &
  ComposerSettings & { testDeliveriesAtOnce: number; testDeliveriesOfStore: number };

type TestDeliveryRuntime = Pick<Runtime, 'sql' | 'guard' | 'sealer' | 'clock' | 'log'>;

/** The event to send: created before it is sent, and stored in the transaction that records the attempt. */
export type Sample<Event extends EventRow> = {
  make: () => Promise<Event>;
  keep: (tx: Tx, event: Event) => Promise<void>;
};

type Key = { shard: number; id: number };
/** The webhook to test. */
type Tested = Key & { storeId: number };

export type TestResult =
  | { kind: 'sent'; event: EventRow; deliveryId: number; attempt: TestAttemptRow }
  /** Refused: this process is already testing the webhook (`under_way`) or others of its store (`store_full`), or has reached its limit (`full`). */
  | { kind: 'under_way' }
  | { kind: 'store_full' }
  | { kind: 'full' }
  /** The webhook is deleted, or has no URL. */
  | { kind: 'nowhere' }
  | { kind: 'stopping' };

export class TestDeliveries implements Running {
  readonly #runtime: TestDeliveryRuntime;
  readonly #settings: TestDeliverySettings;
  readonly #connections: Connections;
  readonly #composer: Composer;
  /** By webhook; without an attempt until it has begun. */
  readonly #running = new Map<number, { storeId: number; attempt?: RunningAttempt }>();
  #isStopping = false;

  constructor(runtime: TestDeliveryRuntime, settings: TestDeliverySettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#connections = new Connections(runtime, { ...settings, idleSockets: settings.testDeliveriesAtOnce });
    this.#composer = new Composer(settings);
  }

  /** Sends a test delivery; resolves when the endpoint has responded or timed out. */
  async send<Event extends EventRow>(webhook: Tested, sample: Sample<Event>): Promise<TestResult> {
    if (this.#isStopping) return { kind: 'stopping' };
    if (this.#running.has(webhook.id)) return { kind: 'under_way' };
    const { testDeliveriesAtOnce, testDeliveriesOfStore } = this.#settings;
    const ofStore = [...this.#running.values()].filter(({ storeId }) => storeId === webhook.storeId);
    if (ofStore.length >= testDeliveriesOfStore) return { kind: 'store_full' };
    if (this.#running.size >= testDeliveriesAtOnce) return { kind: 'full' };
    this.#running.set(webhook.id, { storeId: webhook.storeId });
    try {
      return await this.#send(webhook, sample);
    } finally {
      // Stops the attempt if the transaction failed meanwhile.
      this.#running.get(webhook.id)?.attempt?.abort();
      this.#running.delete(webhook.id);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { attempt: running } of this.#running.values()) running?.abort();
    await this.#connections.stop();
  }

  async #send<Event extends EventRow>(webhook: Key, sample: Sample<Event>): Promise<TestResult> {
    const { sql, clock, log } = this.#runtime;
    const event = await sample.make();
    const started = await this.#start(webhook, event);
    if (started === undefined) return { kind: 'nowhere' };
    const ended = await started.ended;
    if (ended === null) return { kind: 'stopping' };
    const now = clock.now();
    const { storeId, id: eventId } = event;
    const ids = { shard: webhook.shard, day: dayOf(now), storeId, webhookId: webhook.id, eventId };
    const row = { ...ids, ...rowOf(ended), now };
    const deliveryId = await transaction(sql, async (tx) => {
      await sample.keep(tx, event);
      return insertTestDelivery(tx, row);
    });
    log.info(
      { delivery: deliveryId, webhook: webhook.id, store: storeId, outcome: row.outcome, exchangeMs: row.durationMs },
      'test delivery sent',
    );
    return { kind: 'sent', event, deliveryId, attempt: row };
  }

  /**
   * Starts the attempt while the webhook's row is locked, so that none starts after a deletion is committed; a deletion
   * waits for the start only, not for the response. Returns undefined if there is no URL.
   */
  async #start(webhook: Key, event: EventRow): Promise<Pick<RunningAttempt, 'ended'> | undefined> {
    return transaction(this.#runtime.sql, async (tx) => {
      if (!(await lockWebhook(tx, webhook))) return undefined;
      const [row] = await loadTargets(tx, [webhook.shard], [webhook.id]);
      return row === undefined || row.url === null ? undefined : this.#attempt(row, event);
    });
  }

  /** Sends even if the webhook is disabled; a key that cannot be decrypted is an internal error. */
  #attempt(row: TargetRow, event: EventRow): Pick<RunningAttempt, 'ended'> {
    const { clock, log, sealer } = this.#runtime;
    try {
      const context = { webhookId: row.id, target: activeTarget(row, sealer), attempt: 1 };
      const deps = { composer: this.#composer, connections: this.#connections, clock, settings: this.#settings };
      const running = attempt(context, bodyOf(event), () => !this.#isStopping, deps);
      this.#running.set(row.id, { storeId: row.storeId, attempt: running });
      return running;
    } catch (error) {
      log.error({ err: error, webhook: row.id }, 'sending a test delivery failed');
      return { ended: Promise.resolve(unsentAttempt('threw', error, clock.now())) };
    }
  }
}
