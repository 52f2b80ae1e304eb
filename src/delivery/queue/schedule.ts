/** When which lane must be looked at: one timer over two wheels, for deliveries that become due and for gates that open. */
import type { Clock } from '#core/clock.ts';
import type { Lane } from './lane.ts';
import { TimerWheel } from './timer-wheel.ts';

type Deps = {
  clock: Clock;
  /** The lane needs its settings, or rows. */
  requestFetch: (lane: Lane) => void;
  /** The lane may be able to send again. */
  onDue: (lane: Lane) => void;
};

/** How fine a pace and a pause are; a lane that may send more often is let through several times in one slot. */
const START_SLOT_MS = 20;
const DUE_SLOT_MS = 250;
/** About 80 seconds and 17 minutes a turn. */
const SLOTS = 4_096;
/** How long it sleeps at most: a clock that was set is noticed after that. */
const MAX_SLEEP_SLOTS = 12;
const MAX_SLEEP_MS = MAX_SLEEP_SLOTS * START_SLOT_MS;

export class Schedule {
  readonly #deps: Deps;
  /** By the wall clock, as the rows have it. */
  readonly #waitingLanes: TimerWheel<Lane>;
  /** By the monotonic clock: a clock that is set by five minutes must neither freeze a lane nor let it rush. */
  readonly #blockedLanes: TimerWheel<Lane>;
  #timer: NodeJS.Timeout | undefined;
  #wakesAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: Deps) {
    const { clock } = deps;
    this.#deps = deps;
    this.#waitingLanes = new TimerWheel({ slotMs: DUE_SLOT_MS, slots: SLOTS, nowMs: clock.now().getTime() });
    this.#blockedLanes = new TimerWheel({ slotMs: START_SLOT_MS, slots: SLOTS, nowMs: clock.monotonicMs() });
  }

  start(): void {
    this.#sleep(MAX_SLEEP_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Sees to it that the lane gets what it needs: settings, rows, or a look at the right time. */
  update(lane: Lane): void {
    if (lane.isClosed) return;
    if (lane.needsTarget || lane.needsFetch) this.#deps.requestFetch(lane);
    if (lane.deliveries.wakeAtMs < Number.POSITIVE_INFINITY) this.#scheduleDue(lane);
    if (lane.deliveries.queued > 0) this.#scheduleStart(lane);
  }

  /** Lets go of lanes that were closed: they might stand here for as long as a turn takes. */
  removeClosed(): void {
    for (const wheel of [this.#waitingLanes, this.#blockedLanes]) wheel.prune((lane) => lane.isClosed);
  }

  /** Not further ahead than a turn: it is looked at again then, and a lane that was given up does not stay here for a day. */
  #scheduleDue(lane: Lane): void {
    this.#waitingLanes.add(
      lane,
      Math.min(lane.deliveries.wakeAtMs, this.#deps.clock.now().getTime() + SLOTS * DUE_SLOT_MS),
    );
  }

  /** The next exchange of the lane may have to wait for its gate. */
  #scheduleStart(lane: Lane): void {
    const { earliestStartMs } = lane.startConditions;
    const nowMs = this.#deps.clock.monotonicMs();
    if (earliestStartMs <= nowMs) return;
    this.#blockedLanes.add(lane, earliestStartMs);
    if (earliestStartMs < this.#wakesAtMs - START_SLOT_MS && this.#timer !== undefined)
      this.#sleep(earliestStartMs - nowMs);
  }

  #sleep(ms: number): void {
    clearTimeout(this.#timer);
    this.#wakesAtMs = this.#deps.clock.monotonicMs() + ms;
    this.#timer = setTimeout(() => this.#wake(), Math.max(ms, START_SLOT_MS / 2));
  }

  #wake(): void {
    const { clock, onDue } = this.#deps;
    const nowMs = clock.now().getTime();
    for (const lane of this.#waitingLanes.takeDue(nowMs)) {
      if (lane.deliveries.wakeAtMs <= nowMs) {
        lane.deliveries.wakeAtMs = Number.POSITIVE_INFINITY;
        lane.deliveries.markIncomplete();
      }
      this.update(lane);
    }
    for (const lane of this.#blockedLanes.takeDue(clock.monotonicMs())) {
      if (lane.isClosed) continue;
      this.update(lane);
      onDue(lane);
    }
    const nextDueMs = this.#blockedLanes.nextDueMs(MAX_SLEEP_SLOTS) - clock.monotonicMs();
    if (this.#timer !== undefined) this.#sleep(Math.min(MAX_SLEEP_MS, Math.max(0, nextDueMs)));
  }
}
