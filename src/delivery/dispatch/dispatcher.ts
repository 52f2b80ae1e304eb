/** The ring of ready lanes and the exchanges under way: each lane gets its turn, within the slots there are. */
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import type { Bodies, Body } from '../message/bodies.ts';
import { Aborted, startExchange, type Exchange, type ExchangeLimits } from '../exchange/exchange.ts';
import { ended, judge } from '../policy/judge.ts';
import type { Lane, Pending } from '../lanes/lane.ts';
import type { Outcome } from '../exchange/outcome.ts';
import type { Pools } from '../exchange/pools.ts';
import type { Entry, Recorder } from '../record/record.ts';
import { headersOf } from '../message/request.ts';
import type { ActiveTarget } from '../lanes/target.ts';

export type DispatchSettings = ExchangeLimits & {
  slots: number;
  unrecordedLimit: number;
  headerPrefix: string;
  userAgent: string;
};

type Deps = {
  clock: Clock;
  random: () => number;
  log: Log;
  settings: DispatchSettings;
  bodies: Bodies;
  pools: Pools;
  recorder: Recorder;
  /** Whether an attempt may start for the shard: it is ours, and our lease is sure. */
  mayStart: (shard: number) => boolean;
  /** Something of the lane was settled: it may want a fetch, or have to be looked at later. */
  onSettled: (lane: Lane) => void;
};

/** An answer within this time lets a lane have one more exchange at once. */
const FAST_MS = 1_000;

export class Dispatcher {
  readonly #deps: Deps;
  readonly #ring: Lane[] = [];
  readonly #exchanges = new Map<Exchange, Lane>();
  #inFlight = 0;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Puts the lane into the ring if it can send; `pump` starts what there is room for. */
  list(lane: Lane): void {
    if (lane.target?.isActive === false) this.#endOlderThan(lane, lane.target.epoch);
    if (lane.isListed || !lane.canSend(this.#deps.clock.now().getTime())) return;
    lane.isListed = true;
    this.#ring.push(lane);
  }

  pump(): void {
    const { recorder, settings, clock, mayStart } = this.#deps;
    while (!this.#isStopped && this.#inFlight < settings.slots && recorder.unrecorded() < settings.unrecordedLimit) {
      const lane = this.#ring.shift();
      if (lane === undefined) return;
      lane.isListed = false;
      const { target } = lane;
      if (target?.isActive !== true || !mayStart(lane.shard) || !lane.canSend(clock.now().getTime())) continue;
      const delivery = lane.take();
      if (delivery === undefined) continue;
      this.list(lane);
      this.#inFlight += 1;
      void this.#attempt(lane, target, delivery);
    }
  }

  /** Ends every exchange of the lanes that `belongs` picks; nothing of them is recorded. */
  abort(belongs: (lane: Lane) => boolean): void {
    for (const [exchange, lane] of this.#exchanges) if (belongs(lane)) exchange.abort();
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#ring.length = 0;
  }

  async #attempt(lane: Lane, target: ActiveTarget, delivery: Pending): Promise<void> {
    try {
      if (delivery.epoch !== target.epoch) return this.#mismatch(lane, target, delivery);
      const { bodies, mayStart } = this.#deps;
      const body = bodies.peek(delivery.eventId) ?? (await bodies.find(lane.shard, delivery.eventId));
      // Reading the body may have taken a moment, in which the webhook changed or the shard was lost.
      if (lane.target !== target || !mayStart(lane.shard) || this.#isStopped) return lane.putBack(delivery);
      if (body === undefined) return this.#endUnsent(lane, delivery);
      await this.#send(lane, target, delivery, body);
    } catch (error) {
      if (error instanceof Aborted) return lane.putBack(delivery);
      this.#deps.log.error(
        { err: error, delivery: delivery.id, webhook: lane.webhookId },
        'an attempt failed on our side',
      );
      const outcome: Outcome = { kind: 'ours', why: String(error), reply: null };
      this.#landed(lane, target, delivery, { startedAt: this.#deps.clock.now(), durationMs: 0, outcome });
    } finally {
      this.#inFlight -= 1;
      this.#deps.onSettled(lane);
      this.list(lane);
      this.pump();
    }
  }

  async #send(lane: Lane, target: ActiveTarget, delivery: Pending, body: Body): Promise<void> {
    const { bodies, settings, pools, clock } = this.#deps;
    const startedAt = clock.now();
    const startedMs = clock.monotonicMs();
    const bytes = bodies.shape(body, target);
    const headers = headersOf({
      event: body.event,
      target,
      webhookId: lane.webhookId,
      attempt: delivery.attempts + 1,
      body: bytes,
      now: startedAt,
      headerPrefix: settings.headerPrefix,
      userAgent: settings.userAgent,
    });
    const { url } = target;
    const request = { path: url.pathname + url.search, headers, body: bytes };
    const exchange = startExchange(pools.to(url.origin), request, settings, clock.now);
    this.#exchanges.set(exchange, lane);
    try {
      const outcome = await exchange.outcome;
      this.#landed(lane, target, delivery, { startedAt, durationMs: clock.monotonicMs() - startedMs, outcome });
    } finally {
      this.#exchanges.delete(exchange);
    }
  }

  #landed(lane: Lane, target: ActiveTarget, delivery: Pending, attempt: NonNullable<Entry['attempt']>): void {
    const { entry, health, pausedUntilMs } = judge({
      shard: lane.shard,
      delivery,
      attempt,
      profile: target.retryProfile,
      health: lane.health ?? { consecutiveFailures: 0, firstFailureAt: null },
      pausedUntilMs: lane.pausedUntilMs,
      now: this.#deps.clock.now(),
      random: this.#deps.random(),
    });
    lane.health = { ...health, epoch: target.epoch };
    lane.pausedUntilMs = pausedUntilMs;
    const { outcome, durationMs } = attempt;
    if (outcome.kind === 'timed_out') lane.landed('time-out');
    else lane.landed(outcome.kind === 'delivered' && durationMs <= FAST_MS ? 'success' : 'failure');
    this.#write(lane, entry);
  }

  /** A delivery of an older epoch is dead; one of a newer says that our settings are old. */
  #mismatch(lane: Lane, target: ActiveTarget, delivery: Pending): void {
    if (delivery.epoch < target.epoch) return this.#endUnsent(lane, delivery);
    lane.putBack(delivery);
    lane.forgetTarget();
  }

  #endUnsent(lane: Lane, delivery: Pending): void {
    lane.landed('failure');
    this.#write(lane, ended(lane.shard, delivery));
  }

  #endOlderThan(lane: Lane, epoch: number): void {
    for (const delivery of lane.takeOlderThan(epoch)) this.#write(lane, ended(lane.shard, delivery));
  }

  #write(lane: Lane, entry: Entry): void {
    void this.#deps.recorder.record(entry).then((isWritten) => {
      if (isWritten) lane.settle(entry.delivery.id, 'dueAt' in entry.next ? entry.next.dueAt.getTime() : null);
      this.#deps.onSettled(lane);
      this.list(lane);
      this.pump();
    });
  }
}
