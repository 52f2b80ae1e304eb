import type { Lane } from './lane.ts';
import { UNUSABLE } from './target.ts';

/** The states of docs/delivery-states.md. */
export const LANE_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive', 'unusable'] as const;
export type LaneState = (typeof LANE_STATES)[number];

export const HOLDERS = ['endpoint', 'us'] as const;
export type Holder = (typeof HOLDERS)[number];

/**
 * Whom a lane waits for that has something to send. For its endpoint: a pause, the breaker, the pace, or as many exchanges as it
 * bears are under way. For us: a slot, its settings, the lease. Who waits for the one may wait for the other next.
 */
export const heldBy = (lane: Lane, monotonicMs: number): Holder => {
  const isCondemned = lane.condemnedEpoch !== null && lane.condemnedEpoch === lane.target?.epoch;
  const isFull = lane.inFlight >= lane.tempo.atOnce;
  return isCondemned || isFull || lane.gate.holdsBack(monotonicMs) ? 'endpoint' : 'us';
};

/** What holds it back says more than what it does meanwhile: a lane that was paused goes on with what is under way. */
export const stateOf = (lane: Lane, monotonicMs: number): LaneState => {
  if (lane.target === UNUSABLE) return 'unusable';
  if (lane.target?.isActive === false) return 'inactive';
  if (lane.gate.isPaused(monotonicMs)) return 'paused';
  if (lane.gate.isOpen) return 'probing';
  if (lane.inFlight > 0) return 'sending';
  return lane.holding.queued > 0 ? 'ready' : 'idle';
};
