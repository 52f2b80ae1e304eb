/** Attempts begun as the slots and the turns of the lanes allow, and what became of them recorded. */
import type { Lane } from './lane.ts';
import { ended, type Entry } from '../record/entry.ts';
import type { Recorder } from '../record/record.ts';
import { Ages } from './ages.ts';
import { Sender, type SenderDeps, type SenderSettings } from './sender.ts';
import { Turns, type Turn, type TurnLimits } from './run-queue.ts';

export type DispatchSettings = SenderSettings & TurnLimits & { unrecordedLimit: number };

type Deps = SenderDeps & {
  settings: DispatchSettings;
  recorder: Recorder;
  fenceOf: (shard: number) => number | undefined;
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
  readonly #sender: Sender;
  readonly #ticking: NodeJS.Timeout;
  #tickedMs: number;
  /** Who waits until nothing else is under way is told. */
  #onAlone = (): void => {};
  #isPumping = false;
  #isStopped = false;

  constructor(deps: Deps) {
    const { clock, settings, mayStart, mayAct } = deps;
    this.#deps = deps;
    const isReady = (lane: Lane) => lane.mayStart(clock.monotonicMs()) && (mayStart(lane.shard) || !mayAct());
    this.#turns = new Turns(settings, isReady);
    this.#ages = new Ages(TICK_MS, settings.slowAfterMs);
    const write = (lane: Lane, entry: Entry) => this.#write(lane, entry);
    this.#sender = new Sender({ ...deps, write, alone: () => this.#alone(), over: (turn) => this.#over(turn) });
    this.#tickedMs = clock.monotonicMs();
    this.#ticking = setInterval(() => this.#tick(), TICK_MS);
  }

  /** How many are in flight, and how much of that the slow ones have. */
  get slots(): Turns['slots'] {
    return this.#turns.slots;
  }

  /** Puts the lane into the ring if it can send; `pump` starts what there is room for. */
  list(lane: Lane): void {
    const dead = lane.takeDead();
    if (dead.length > 0) {
      const fenced = { shard: lane.shard, fence: this.#deps.fenceOf(lane.shard) };
      for (const delivery of dead) this.#write(lane, ended(fenced, delivery));
    }
    this.#turns.list(lane);
  }

  pump(): void {
    // What ends at once asks for the next one in the middle of this: the loop goes on to it anyway, and as deep as it came.
    if (this.#isPumping) return;
    this.#isPumping = true;
    const { recorder, settings, quarantine, mayAct, fenceOf } = this.#deps;
    const hasRoom = () => recorder.unrecorded() < settings.unrecordedLimit;
    try {
      while (!this.#isStopped && mayAct() && quarantine.exclusiveId === undefined && hasRoom()) {
        const turn = this.#turns.next();
        if (turn === undefined) return;
        turn.fence = fenceOf(turn.lane.shard);
        this.#pace(turn);
        this.list(turn.lane);
        turn.age = this.#ages.add(turn, turn.lane.tempo.lateAfterMs(settings.slowAfterMs));
        this.#sender.start(turn);
      }
    } finally {
      this.#isPumping = false;
    }
  }

  /** Ends every exchange of the lanes that `belongs` picks; nothing of them is recorded. Answers how many there were. */
  abort(belongs: (lane: Lane) => boolean): number {
    return this.#sender.abort(belongs);
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#sender.stop();
    clearInterval(this.#ticking);
  }

  /** Lets go of lanes that were closed: they might wait here for as long as their origin has no room. */
  forgetClosed(): void {
    this.#turns.forgetClosed();
  }

  #pace({ lane, target }: Turn): void {
    if (target.ratePerSecond === null) return;
    lane.gate.paced(target.ratePerSecond, this.#deps.clock.monotonicMs());
    this.#deps.onPaced(lane);
  }

  /** What became slow makes room for those who are not. */
  #tick(): void {
    const nowMs = this.#deps.clock.monotonicMs();
    this.#sender.ownLoop.fired(nowMs - this.#tickedMs - TICK_MS);
    this.#tickedMs = nowMs;
    for (const turn of this.#ages.tick()) this.#turns.turnLate(turn);
    this.pump();
  }

  /** At once, or when all others are over: nothing starts meanwhile, so that is within the time-out of an exchange. */
  #alone(): Promise<void> {
    if (this.slots.inFlight === 1) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onAlone = resolve;
    return promise;
  }

  /** What it held is free, and its lane may go on. */
  #over(turn: Turn): void {
    turn.age?.delete(turn);
    this.#turns.end(turn);
    if (this.slots.inFlight === 1) this.#onAlone();
    this.#next(turn.lane);
  }

  #write(lane: Lane, entry: Entry): void {
    this.#deps.recorder.record(entry, (isWritten) => {
      if (isWritten) this.#settle(lane, entry);
      this.#deps.quarantine.leave(entry.delivery.id);
      this.#next(lane);
    });
  }

  #next(lane: Lane): void {
    this.#deps.onSettled(lane);
    this.list(lane);
    this.pump();
  }

  #settle(lane: Lane, { shard, delivery, next, webhook }: Entry): void {
    this.#deps.quarantine.unmark(shard, delivery.id);
    lane.holding.settle(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    // Whoever reads its settings next finds in the table that the webhook is to be switched off.
    if (webhook?.isPendingDisable === true) lane.forgetTarget();
  }
}
