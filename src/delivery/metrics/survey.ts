/** The lanes in a few numbers. Pure: one walk, 20 ms for 100,000 lanes, and only when somebody asks. */
import type { Lane } from '../lanes/lane.ts';
import { stateOf, type LaneState } from '../lanes/state.ts';
import type { Moment } from '../policy/hold.ts';

/** Shards in a group: sixteen groups are few enough for a series each. */
export const SHARD_GROUPS = 16;

export type Survey = {
  lanes: Record<LaneState, number>;
  /** Due deliveries in memory that wait for their turn. */
  queued: number;
  /** By group of shards; of what a pause or the breaker holds back nothing is told: it is late because of its receiver. */
  oldestDueAtMs: Map<number, number>;
};

export const surveyOf = (lanes: Iterable<Lane>, moment: Moment): Survey => {
  const nowMs = moment.now.getTime();
  const survey: Survey = {
    lanes: { idle: 0, ready: 0, sending: 0, paused: 0, probing: 0, inactive: 0 },
    queued: 0,
    oldestDueAtMs: new Map(),
  };
  for (const lane of lanes) {
    const state = stateOf(lane, moment.nowMs);
    survey.lanes[state] += 1;
    survey.queued += lane.holding.queued;
    if (state !== 'ready' && state !== 'sending') continue;
    const dueAtMs = lane.first?.dueAt.getTime() ?? nowMs;
    const group = Math.floor(lane.shard / SHARD_GROUPS);
    survey.oldestDueAtMs.set(group, Math.min(dueAtMs, survey.oldestDueAtMs.get(group) ?? nowMs));
  }
  return survey;
};
