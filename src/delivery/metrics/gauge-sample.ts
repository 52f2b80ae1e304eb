/** The lanes in a few numbers. Pure: one walk, 20 ms for 100,000 lanes, and only when somebody asks. */
import type { Lane } from '../queue/lane.ts';
import { heldBy, stateOf, type Holder, type LaneState } from '../queue/lane-state.ts';
import type { Moment } from '../policy/backoff.ts';

/** Shards in a group: sixteen groups are few enough for a series each. */
export const SHARD_GROUPS = 16;

export type GaugeSample = {
  lanes: Record<LaneState, number>;
  /** Due deliveries in memory that wait for their turn. */
  queued: number;
  /** By whom it waits for and by group of shards: what one slow or paced webhook leaves undone is no backlog of ours. */
  oldestDueAtMs: Record<Holder, Map<number, number>>;
};

export const sampleLanes = (lanes: Iterable<Lane>, moment: Moment): GaugeSample => {
  const nowMs = moment.now.getTime();
  const sample: GaugeSample = {
    lanes: { idle: 0, ready: 0, sending: 0, paused: 0, probing: 0, inactive: 0, unusable: 0 },
    queued: 0,
    oldestDueAtMs: { endpoint: new Map(), us: new Map() },
  };
  for (const lane of lanes) {
    const state = stateOf(lane, moment.nowMs);
    sample.lanes[state] += 1;
    sample.queued += lane.holding.queued;
    // What a webhook that is off still holds is ended, and not sent.
    if (lane.first === undefined || state === 'inactive') continue;
    const oldest = sample.oldestDueAtMs[heldBy(lane, moment.nowMs)];
    const group = Math.floor(lane.shard / SHARD_GROUPS);
    oldest.set(group, Math.min(lane.first.dueAt.getTime(), oldest.get(group) ?? nowMs));
  }
  return sample;
};
