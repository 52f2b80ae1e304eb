/** Names the state of a lane and what it waits for, for metrics. */
import type { Lane } from './lane.ts';
import { UNUSABLE } from '../attempt/target.ts';

/** The states of docs/delivery-states.md. */
export const LANE_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive', 'unusable'] as const;
export type LaneState = (typeof LANE_STATES)[number];

export const BLOCKERS = ['endpoint', 'us'] as const;
export type Blocker = (typeof BLOCKERS)[number];

/**
 * Returns what a lane with queued deliveries waits for: its endpoint (pause, breaker, rate limit, concurrency limit,
 * pending disable) or this process (a slot, its settings, the lease).
 */
export function blockerOf(lane: Lane, monotonicMs: number): Blocker {
  const isPendingDisable = lane.pendingDisableEpoch !== null && lane.pendingDisableEpoch === lane.target?.epoch;
  const isFull = lane.inFlight >= lane.latency.maxInFlight;
  return isPendingDisable || isFull || lane.startConditions.isBlocked(monotonicMs) ? 'endpoint' : 'us';
}

/** Returns the state. What blocks a lane takes precedence over its attempts in flight: a paused lane finishes them. */
export function stateOf(lane: Lane, monotonicMs: number): LaneState {
  if (lane.target === UNUSABLE) return 'unusable';
  if (lane.target?.isActive === false) return 'inactive';
  if (lane.startConditions.isPaused(monotonicMs)) return 'paused';
  if (lane.startConditions.isBreakerOpen) return 'probing';
  if (lane.inFlight > 0) return 'sending';
  return lane.deliveries.queued > 0 ? 'ready' : 'idle';
}
