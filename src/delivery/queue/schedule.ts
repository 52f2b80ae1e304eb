/** When which lane must be looked at: one timer over two wheels, for deliveries that become due and for gates that open. */
import type { Clock } from '#core/clock.ts';
import type { Lane } from './lane.ts';
import { Wheel } from './timer-wheel.ts';

type Deps = {
  clock: Clock;
  /** The lane needs its settings, or rows. */
  want: (lane: Lane) => void;
  /** The lane may be able to send again. */
  onDue: (lane: Lane) => void;
};

/** How fine a pace and a pause are; a lane that may send more often is let through several times in one slot. */
const GATE_SLOT_MS = 20;
const DUE_SLOT_MS = 250;
/** About 80 seconds and 17 minutes a turn. */
const SLOTS = 4_096;
/** How long it sleeps at most: a clock that was set is noticed after that. */
const REST_SLOTS = 12;
const REST_MS = REST_SLOTS * GATE_SLOT_MS;

export class Timetable {
  readonly #deps: Deps;
  /** By the wall clock, as the rows have it. */
  readonly #due: Wheel<Lane>;
  /** By the monotonic clock: a clock that is set by five minutes must neither freeze a lane nor let it rush. */
  readonly #gates: Wheel<Lane>;
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: Deps) {
    const { clock } = deps;
    this.#deps = deps;
    this.#due = new Wheel({ slotMs: DUE_SLOT_MS, slots: SLOTS, nowMs: clock.now().getTime() });
    this.#gates = new Wheel({ slotMs: GATE_SLOT_MS, slots: SLOTS, nowMs: clock.monotonicMs() });
  }

  start(): void {
    this.#sleep(REST_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Sees to it that the lane gets what it needs: settings, rows, or a look at the right time. */
  look(lane: Lane): void {
    if (lane.isClosed) return;
    if (lane.wantsTarget || lane.wantsFetch) this.#deps.want(lane);
    if (lane.holding.wakeAtMs < Number.POSITIVE_INFINITY) this.#awaitDue(lane);
    if (lane.holding.queued > 0) this.#awaitGate(lane);
  }

  /** Lets go of lanes that were closed: they might stand here for as long as a turn takes. */
  forgetClosed(): void {
    for (const wheel of [this.#due, this.#gates]) wheel.prune((lane) => lane.isClosed);
  }

  /** Not further ahead than a turn: it is looked at again then, and a lane that was given up does not stay here for a day. */
  #awaitDue(lane: Lane): void {
    this.#due.add(lane, Math.min(lane.holding.wakeAtMs, this.#deps.clock.now().getTime() + SLOTS * DUE_SLOT_MS));
  }

  /** The next exchange of the lane may have to wait for its gate. */
  #awaitGate(lane: Lane): void {
    const { opensAtMs } = lane.gate;
    const nowMs = this.#deps.clock.monotonicMs();
    if (opensAtMs <= nowMs) return;
    this.#gates.add(lane, opensAtMs);
    if (opensAtMs < this.#wakesAtMs - GATE_SLOT_MS && this.#timer !== undefined) this.#sleep(opensAtMs - nowMs);
  }

  #sleep(ms: number): void {
    clearTimeout(this.#timer);
    this.#wakesAtMs = this.#deps.clock.monotonicMs() + ms;
    this.#timer = setTimeout(() => this.#wake(), Math.max(ms, GATE_SLOT_MS / 2));
  }

  #wake(): void {
    const { clock, onDue } = this.#deps;
    const nowMs = clock.now().getTime();
    for (const lane of this.#due.due(nowMs)) {
      if (lane.holding.wakeAtMs <= nowMs) {
        lane.holding.wakeAtMs = Number.POSITIVE_INFINITY;
        lane.holding.lookAgain();
      }
      this.look(lane);
    }
    for (const lane of this.#gates.due(clock.monotonicMs())) {
      if (lane.isClosed) continue;
      this.look(lane);
      onDue(lane);
    }
    const soonestMs = this.#gates.soonestMs(REST_SLOTS) - clock.monotonicMs();
    if (this.#timer !== undefined) this.#sleep(Math.min(REST_MS, Math.max(0, soonestMs)));
  }
}
