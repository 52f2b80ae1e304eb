/** The exchanges under way: begun as the slots and the turns of the lanes allow, and what became of them handed on. */
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import type { Bodies, Body } from '../message/bodies.ts';
import { Aborted, type Exchange } from '../exchange/exchange.ts';
import type { Lane } from '../lanes/lane.ts';
import type { Pending } from '../lanes/holding.ts';
import type { Outcome } from '../exchange/outcome.ts';
import type { Connections } from '../exchange/connections.ts';
import { ended, putAside, type Entry } from '../record/entry.ts';
import type { Recorder } from '../record/record.ts';
import type { Suspects } from '../suspects/suspects.ts';
import type { ActiveTarget } from '../lanes/target.ts';
import { Ages } from './ages.ts';
import { land, type LandingSettings } from './landing.ts';
import { exchangeOf, type SendSettings } from './send.ts';
import { Turns, type Turn, type TurnLimits } from './turns.ts';

export type DispatchSettings = SendSettings & TurnLimits & LandingSettings & { unrecordedLimit: number };

type Deps = {
  clock: Clock;
  random: () => number;
  log: Log;
  settings: DispatchSettings;
  bodies: Bodies;
  connections: Connections;
  recorder: Recorder;
  suspects: Suspects;
  /** Whether an attempt may start for the shard: it is ours, and our lease is sure. */
  mayStart: (shard: number) => boolean;
  /** Whether any may: our lease is sure. Where it is not for a moment, lanes stay in the ring. */
  mayAct: () => boolean;
  /** Something of the lane was settled: it may want a fetch, or have to be looked at later. */
  onSettled: (lane: Lane) => void;
  /** The lane has to wait before it may start the next one. */
  onPaced: (lane: Lane) => void;
};

/** How often the ages of all exchanges are looked at, with one timer. */
const TICK_MS = 50;

export class Dispatcher {
  readonly #deps: Deps;
  readonly #turns: Turns;
  readonly #ages: Ages<Turn>;
  readonly #exchanges = new Map<Exchange, Lane>();
  readonly #ticking: NodeJS.Timeout;
  #isStopped = false;

  constructor(deps: Deps) {
    const { clock, settings, mayStart, mayAct } = deps;
    this.#deps = deps;
    const isReady = (lane: Lane) => lane.mayStart(clock.monotonicMs()) && (mayStart(lane.shard) || !mayAct());
    this.#turns = new Turns(settings, isReady);
    this.#ages = new Ages(TICK_MS, settings.slowAfterMs);
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
  }

  /** How many are in flight, and how much of that the slow ones have. */
  get slots(): Turns['slots'] {
    return this.#turns.slots;
  }

  /** Puts the lane into the ring if it can send; `pump` starts what there is room for. */
  list(lane: Lane): void {
    if (lane.target?.isActive === false) {
      for (const dead of lane.holding.takeOlderThan(lane.target.epoch)) this.#write(lane, ended(lane.shard, dead));
    }
    this.#turns.list(lane);
  }

  pump(): void {
    const { recorder, settings, mayAct } = this.#deps;
    while (!this.#isStopped && mayAct() && recorder.unrecorded() < settings.unrecordedLimit) {
      const turn = this.#turns.next();
      if (turn === undefined) return;
      this.#pace(turn);
      this.list(turn.lane);
      this.#ages.add(turn, turn.lane.tempo.lateAfterMs(settings.slowAfterMs));
      void this.#attempt(turn);
    }
  }

  /** Ends every exchange of the lanes that `belongs` picks; nothing of them is recorded. Answers how many there were. */
  abort(belongs: (lane: Lane) => boolean): number {
    const found = [...this.#exchanges].filter(([, lane]) => belongs(lane));
    for (const [exchange] of found) exchange.abort();
    return found.length;
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#ticking);
    this.#turns.clear();
  }

  #pace({ lane, target }: Turn): void {
    if (target.ratePerSecond === null) return;
    lane.gate.paced(target.ratePerSecond, this.#deps.clock.monotonicMs());
    this.#deps.onPaced(lane);
  }

  /** What became slow makes room for those who are not. */
  #tick(): void {
    for (const turn of this.#ages.tick()) if (!turn.isOver) this.#turns.turnLate(turn);
    this.pump();
  }

  async #attempt(turn: Turn): Promise<void> {
    const { lane, target, delivery } = turn;
    // What fails before that is no fault of this delivery: the database was away.
    let isSending = false;
    try {
      if (delivery.epoch !== target.epoch) return this.#mismatch(lane, target, delivery);
      const { bodies, suspects, mayStart } = this.#deps;
      const isAdmitted = suspects.admit(lane, delivery);
      if (isAdmitted === undefined) return this.#putAside(lane, delivery);
      if (!isAdmitted) return;
      const body = bodies.peek(delivery.eventId) ?? (await bodies.find(lane.shard, delivery.eventId));
      const isNoted = !suspects.mustNote(lane.shard, delivery.id) || (await suspects.note(lane.shard, delivery.id));
      // This may have taken a moment, in which the webhook changed or the shard was lost.
      const isCurrent = isNoted && lane.target === target && mayStart(lane.shard) && !this.#isStopped;
      if (!isCurrent) return this.#putBack(lane, delivery);
      if (body === undefined) return this.#endUnsent(lane, delivery);
      isSending = true;
      await this.#send(turn, body);
    } catch (error) {
      if (error instanceof Aborted) return this.#putBack(lane, delivery);
      const about = { err: error, delivery: delivery.id, webhook: lane.webhookId };
      this.#deps.log.error(about, 'an attempt failed on our side');
      const outcome: Outcome = { kind: isSending ? 'threw' : 'ours', why: String(error), reply: null };
      const attempt = { startedAt: this.#deps.clock.now(), durationMs: 0, outcome };
      this.#write(lane, land(turn, attempt, this.#deps));
    } finally {
      this.#turns.end(turn);
      this.#deps.onSettled(lane);
      this.list(lane);
      this.pump();
    }
  }

  async #send(turn: Turn, body: Body): Promise<void> {
    const { clock } = this.#deps;
    const startedAt = clock.now();
    const startedMs = clock.monotonicMs();
    const exchange = exchangeOf(turn, body, this.#deps);
    this.#exchanges.set(exchange, turn.lane);
    try {
      const outcome = await exchange.outcome;
      const attempt = { startedAt, durationMs: clock.monotonicMs() - startedMs, outcome, wire: exchange.wire };
      this.#write(turn.lane, land(turn, attempt, this.#deps));
    } finally {
      this.#exchanges.delete(exchange);
    }
  }

  #putBack(lane: Lane, delivery: Pending): void {
    lane.putBack(delivery);
    this.#deps.suspects.left(delivery.id);
  }

  /** A delivery of an older epoch is dead; one of a newer says that our settings are old. */
  #mismatch(lane: Lane, target: ActiveTarget, delivery: Pending): void {
    if (delivery.epoch < target.epoch) return this.#endUnsent(lane, delivery);
    lane.putBack(delivery);
    lane.forgetTarget();
  }

  /** It killed who sent it, again and again: it is never sent any more. */
  #putAside(lane: Lane, delivery: Pending): void {
    const { log, clock } = this.#deps;
    log.error({ delivery: delivery.id, webhook: lane.webhookId }, 'a delivery that kills workers is put aside');
    lane.landed();
    this.#write(lane, putAside(lane.shard, delivery, 'kills workers', clock.now()));
  }

  #endUnsent(lane: Lane, delivery: Pending): void {
    lane.landed();
    this.#write(lane, ended(lane.shard, delivery));
  }

  #write(lane: Lane, entry: Entry): void {
    void this.#deps.recorder.record(entry).then((isWritten) => {
      if (isWritten) this.#settle(lane, entry);
      this.#deps.suspects.left(entry.delivery.id);
      this.#deps.onSettled(lane);
      this.list(lane);
      this.pump();
    });
  }

  #settle(lane: Lane, { shard, delivery, next, webhook }: Entry): void {
    this.#deps.suspects.settled(shard, delivery.id);
    lane.holding.settle(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    // Whoever reads its settings next finds in the table that the webhook is to be switched off.
    if (webhook?.isCondemned === true) lane.forgetTarget();
  }
}
