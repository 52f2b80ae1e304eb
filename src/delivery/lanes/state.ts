import type { Lane } from './lane.ts';

/** The states of docs/delivery-states.md. */
export const LANE_STATES = ['idle', 'ready', 'sending', 'paused', 'probing', 'inactive'] as const;
export type LaneState = (typeof LANE_STATES)[number];

/** What holds it back says more than what it does meanwhile: a lane that was paused goes on with what is under way. */
export const stateOf = (lane: Lane, monotonicMs: number): LaneState => {
  if (lane.target?.isActive === false) return 'inactive';
  if (lane.gate.isPaused(monotonicMs)) return 'paused';
  if (lane.gate.isOpen) return 'probing';
  if (lane.inFlight > 0) return 'sending';
  return lane.holding.queued > 0 ? 'ready' : 'idle';
};
