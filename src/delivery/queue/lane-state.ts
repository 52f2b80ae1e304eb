import type { Lane } from './lane.ts';
import { UNUSABLE } from './target.ts';

/** The states of docs/delivery-states.md. */
export const LANE_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive', 'unusable'] as const;
export type LaneState = (typeof LANE_STATES)[number];

export const BLOCKERS = ['endpoint', 'us'] as const;
export type Blocker = (typeof BLOCKERS)[number];

/**
 * Whom a lane waits for that has something to send. For its endpoint: a pause, the breaker, the pace, or as many exchanges as it
 * bears are under way. For us: a slot, its settings, the lease. Who waits for the one may wait for the other next.
 */
export const blockerOf = (lane: Lane, monotonicMs: number): Blocker => {
  const isPendingDisable = lane.pendingDisableEpoch !== null && lane.pendingDisableEpoch === lane.target?.epoch;
  const isFull = lane.inFlight >= lane.latency.maxInFlight;
  return isPendingDisable || isFull || lane.startConditions.isBlocked(monotonicMs) ? 'endpoint' : 'us';
};

/** What holds it back says more than what it does meanwhile: a lane that was paused goes on with what is under way. */
export const stateOf = (lane: Lane, monotonicMs: number): LaneState => {
  if (lane.target === UNUSABLE) return 'unusable';
  if (lane.target?.isActive === false) return 'inactive';
  if (lane.startConditions.isPaused(monotonicMs)) return 'paused';
  if (lane.startConditions.isBreakerOpen) return 'probing';
  if (lane.inFlight > 0) return 'sending';
  return lane.deliveries.queued > 0 ? 'ready' : 'idle';
};
