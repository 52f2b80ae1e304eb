/** The state of the engine as it is when it is asked for: nothing of this costs a delivery anything. */
import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '#kernel/clock.ts';
import type { Lane } from '../lanes/lane.ts';
import { LANE_STATES } from '../lanes/state.ts';
import { momentOf } from '../policy/hold.ts';
import { surveyOf, SHARD_GROUPS } from './survey.ts';

/** What is looked at of a worker's parts. */
export type EngineView = {
  clock: Clock;
  settings: { slots: number };
  lanes: { all: () => Iterable<Lane> };
  ownership: { owned: () => number[] };
  dispatcher: { readonly inFlight: number };
  recorder: { unrecorded: () => number };
};

const MS = 1_000;

export const observeEngine = (
  registry: Registry,
  { clock, settings, lanes, ownership, dispatcher, recorder }: EngineView,
): void => {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number) =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      }),
    );
  gauge('halcyon_delivery_in_flight', 'Attempts under way', () => dispatcher.inFlight);
  gauge('halcyon_delivery_slots', 'Attempts that may be under way at once', () => settings.slots);
  gauge('halcyon_delivery_unrecorded', 'Attempts that ended and are not recorded yet', () => recorder.unrecorded());
  gauge('halcyon_shards_held', 'Shards that this process has, of 256', () => ownership.owned().length);
  // One walk over the lanes for the three of them: the first is asked first, and sets the others.
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_lanes',
      help: 'Webhooks with work in memory, by what they are at',
      labelNames: ['state'],
      registers,
      collect() {
        const moment = momentOf(clock);
        const nowMs = moment.now.getTime();
        const survey = surveyOf(lanes.all(), moment);
        for (const state of LANE_STATES) this.set({ state }, survey.lanes[state]);
        queued.set(survey.queued);
        ages.reset();
        const groups = new Set(ownership.owned().map((shard) => Math.floor(shard / SHARD_GROUPS)));
        for (const group of groups) {
          const dueAtMs = survey.oldestDueAtMs.get(group) ?? nowMs;
          ages.set({ shard_group: group }, Math.max(0, nowMs - dueAtMs) / MS);
        }
      },
    }),
  );
  const queued = new Gauge({
    name: 'halcyon_delivery_queued',
    help: 'Due deliveries in memory that wait for their turn; the table may have more',
    registers,
  });
  const ages = new Gauge({
    name: 'halcyon_delivery_backlog_age_seconds',
    help: 'How long the oldest delivery that nothing holds back is due, by group of 16 shards',
    labelNames: ['shard_group'],
    registers,
  });
};
