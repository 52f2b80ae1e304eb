/** An attempt from the lane's turn to its outcome: where it may be sent, it is sent, and what became of it is told. */
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Connections } from '../attempt/http/connections.ts';
import type { Exchange } from '../attempt/http/exchange.ts';
import type { Outcome } from '../attempt/http/outcome.ts';
import type { Lane } from './lane.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Body } from '../attempt/event-cache.ts';
import { ended, deadLetter, type Attempt, type Entry } from '../record/entry.ts';
import type { Quarantine } from '../quarantine/quarantine.ts';
import { land, type LandingSettings } from './completion.ts';
import { OwnLoop } from './loop-lag.ts';
import { ResourceOrder } from './resource-order.ts';
import { exchangeOf, type SendSettings } from './send.ts';
import type { Turn } from './run-queue.ts';

export type SenderSettings = SendSettings & LandingSettings;

export type SenderDeps = {
  clock: Clock;
  /** For how long the event loop had nothing to do, since the process began. */
  idleMs: () => number;
  random: () => number;
  log: Log;
  settings: SenderSettings;
  bodies: Bodies;
  connections: Connections;
  quarantine: Quarantine;
  /** Whether an attempt may start for the shard: it is ours, and our lease is sure. */
  mayStart: (shard: number) => boolean;
  /**
   * Whether one that started may send its first byte, or send again on another connection: the shard is held, also where it is
   * on its way back, since that waits for what is under way. One that was left alone then would come twice.
   */
  mayBegin: (shard: number) => boolean;
};

type Deps = SenderDeps & {
  /** To be written down. */
  write: (lane: Lane, entry: Entry) => void;
  /** Resolves when nothing is under way but what asks. */
  alone: () => Promise<void>;
  /** The turn is over, and what it has to tell was told. */
  over: (turn: Turn) => void;
};

export class Sender {
  readonly #deps: Deps;
  readonly #exchanges = new Map<Exchange, Lane>();
  readonly ownLoop = new OwnLoop();
  readonly #order = new ResourceOrder();
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Sends nothing more. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Ends every exchange of the lanes that `belongs` picks; nothing of them is recorded. Answers how many there were. */
  abort(belongs: (lane: Lane) => boolean): number {
    const found = [...this.#exchanges].filter(([, lane]) => belongs(lane));
    for (const [exchange] of found) exchange.abort();
    return found.length;
  }

  /** Sends at once where nothing has to be waited for, which is nearly always: promises for each step were some 2.7 KB a delivery, by samples. */
  start(turn: Turn): void {
    const { lane, target, delivery } = turn;
    const { bodies, quarantine } = this.#deps;
    if (delivery.epoch !== target.epoch) return this.#renew(turn);
    const isAdmitted = quarantine.admit(lane, delivery);
    if (isAdmitted === undefined) return this.#putAside(turn);
    if (!isAdmitted) return this.#deps.over(turn);
    const body = bodies.peek(delivery.eventId);
    if (body === undefined || quarantine.mustMark(lane.shard, delivery.id)) void this.#prepare(turn, body);
    else this.#send(turn, body);
  }

  async #prepare(turn: Turn, present: Body | undefined): Promise<void> {
    const { lane, delivery } = turn;
    const { bodies, quarantine } = this.#deps;
    let [body, isMarked, isCurrent] = [present, true, false];
    try {
      body ??= await bodies.find(lane.shard, delivery.eventId);
      // Before it is noted: a death while it waits is not its own.
      if (quarantine.exclusiveId === delivery.id) await this.#deps.alone();
      if (quarantine.mustMark(lane.shard, delivery.id)) isMarked = await quarantine.mark(lane.shard, delivery.id);
      isCurrent = isMarked && this.#isCurrent(turn);
    } catch (error) {
      // No fault of this delivery: the database was away.
      return this.#failed(turn, 'internal', error);
    }
    if (!isCurrent) return this.#putBack(turn);
    if (body === undefined) return this.#endUnsent(turn);
    this.#send(turn, body);
  }

  /** Returns whether the turn is still its lane's: in a wait the webhook may have changed, or the shard may have got another owner. */
  #isCurrent({ lane, target }: Turn): boolean {
    return lane.target === target && !lane.isClosed && this.#deps.mayStart(lane.shard) && !this.#isStopped;
  }

  #send(turn: Turn, body: Body): void {
    const { type, resourceId } = body.event;
    const { before, leave } = this.#order.join(`${turn.lane.webhookId} ${type} ${resourceId}`);
    if (before === undefined) return this.#exchange(turn, body, leave);
    void before.then(() => {
      if (this.#isCurrent(turn)) return this.#exchange(turn, body, leave);
      leave();
      this.#putBack(turn);
    });
  }

  #exchange(turn: Turn, body: Body, leave: () => void): void {
    const { clock, idleMs } = this.#deps;
    const startedAt = clock.now();
    const [startedMs, idleBeforeMs] = [clock.monotonicMs(), idleMs()];
    let exchange: Exchange;
    try {
      exchange = exchangeOf(turn, body, startedAt, this.#deps);
    } catch (error) {
      leave();
      return this.#failed(turn, 'threw', error);
    }
    this.#exchanges.set(exchange, turn.lane);
    void exchange.outcome.then(leave, leave);
    void exchange.outcome.then(
      (outcome) => {
        this.#exchanges.delete(exchange);
        const durationMs = clock.monotonicMs() - startedMs;
        const isOurs = this.ownLoop.took(durationMs, idleMs() - idleBeforeMs);
        this.#landed(turn, { startedAt, durationMs, outcome, wire: exchange.wire }, isOurs);
      },
      // Aborted: nothing else is rejected.
      () => {
        this.#exchanges.delete(exchange);
        this.#putBack(turn);
      },
    );
  }

  #landed(turn: Turn, attempt: Attempt, isOurs: boolean): void {
    let entry: Entry;
    try {
      entry = land(turn, attempt, isOurs, this.#deps);
    } catch (error) {
      return this.#failed(turn, 'threw', error);
    }
    this.#deps.write(turn.lane, entry);
    this.#deps.over(turn);
  }

  /** `threw`: it is this very delivery that cannot be sent. */
  #failed(turn: Turn, kind: 'internal' | 'threw', error: unknown): void {
    const { log, clock } = this.#deps;
    const about = { err: error, delivery: turn.delivery.id, webhook: turn.lane.webhookId };
    log.error(about, 'an attempt failed on our side');
    const outcome: Outcome = { kind, why: String(error), reply: null };
    try {
      this.#deps.write(turn.lane, land(turn, { startedAt: clock.now(), durationMs: 0, outcome }, true, this.#deps));
    } finally {
      this.#deps.over(turn);
    }
  }

  #putBack(turn: Turn): void {
    turn.lane.putBack(turn.delivery);
    this.#deps.quarantine.leave(turn.delivery.id);
    this.#deps.over(turn);
  }

  /** Its epoch is newer than our settings, which are read anew; what is older died before it came to its turn. */
  #renew(turn: Turn): void {
    turn.lane.putBack(turn.delivery);
    turn.lane.forgetTarget();
    this.#deps.over(turn);
  }

  /** It killed who sent it, again and again: it is never sent any more. */
  #putAside(turn: Turn): void {
    const { lane, delivery, fence } = turn;
    const { log, clock } = this.#deps;
    log.error({ delivery: delivery.id, webhook: lane.webhookId }, 'a delivery that kills workers is put aside');
    lane.landed();
    this.#deps.write(lane, deadLetter({ shard: lane.shard, fence }, delivery, 'kills workers', clock.now()));
    this.#deps.over(turn);
  }

  #endUnsent(turn: Turn): void {
    const { lane, delivery, fence } = turn;
    lane.landed();
    this.#deps.write(lane, ended({ shard: lane.shard, fence }, delivery));
    this.#deps.over(turn);
  }
}
