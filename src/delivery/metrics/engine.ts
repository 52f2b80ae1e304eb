/** The state of the engine as it is when it is asked for: nothing of this costs a delivery anything. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '#core/clock.ts';
import type { Slots } from '../queue/slots.ts';
import type { Sockets } from '../attempt/http/connections.ts';
import type { Lane } from '../queue/lane.ts';
import { HOLDERS, LANE_STATES } from '../queue/lane-state.ts';
import { momentOf } from '../policy/backoff.ts';
import { sampleLanes, SHARD_GROUPS } from './gauge-sample.ts';

/** What is looked at of a worker's parts. */
export type EngineView = {
  clock: Clock;
  settings: { slots: number };
  engine: {
    lanes: { all: () => Iterable<Lane> };
    ownership: { owned: () => number[] };
    dispatcher: { readonly slots: Slots };
    connections: { readonly sockets: Sockets };
    ownerWrites: { recorder: { unrecorded: () => number } };
  };
};

const MS = 1_000;

type Read = () => number;

const createGauges = (registry: Registry) => (name: string, help: string, read: Read) =>
  registry.registerMetric(
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    }),
  );

/** By the one label that tells its values apart. */
const observeSockets = (registry: Registry, { connections }: EngineView['engine']): void => {
  const registers = [registry];
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_sockets',
      help: 'Connections to endpoints, by what they are at',
      labelNames: ['state'],
      registers,
      collect() {
        const { opening, busy, idle } = connections.sockets;
        for (const [state, count] of Object.entries({ opening, busy, idle })) this.set({ state }, count);
      },
    }),
  );
  const since = (name: string, help: string, label: string, read: () => Readonly<Record<string, number>>) =>
    registry.registerMetric(
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        // It is counted elsewhere, from the start of the process on.
        collect() {
          this.reset();
          for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
        },
      }),
    );
  since('halcyon_connections_used_total', 'Connections that exchanges took, by whether they were there', 'from', () => {
    const { opened, reused } = connections.sockets;
    return { opened, reused };
  });
  since(
    'halcyon_tls_handshakes_total',
    'TLS handshakes with endpoints, by whether a session was resumed',
    'kind',
    () => {
      const { full, resumed } = connections.sockets.handshakes;
      return { full, resumed };
    },
  );
};

export const observeEngine = (registry: Registry, view: EngineView): void => {
  const { clock, settings } = view;
  const { lanes, ownership, dispatcher, ownerWrites } = view.engine;
  const registers = [registry];
  const gauge = createGauges(registry);
  gauge('halcyon_delivery_in_flight', 'Attempts under way', () => dispatcher.slots.inFlight);
  gauge('halcyon_delivery_slots', 'Attempts that may be under way at once', () => settings.slots);
  gauge('halcyon_delivery_slow', 'Attempts that are slow or of slow endpoints', () => dispatcher.slots.slow);
  gauge('halcyon_delivery_slow_limit', 'Slots that the slow ones may have', () => dispatcher.slots.slowLimit);
  gauge('halcyon_delivery_unproven', 'Attempts at endpoints that never answered fast', () => dispatcher.slots.unproven);
  gauge('halcyon_delivery_unrecorded', 'Attempts that ended and are not recorded yet', () =>
    ownerWrites.recorder.unrecorded(),
  );
  gauge('halcyon_shards_held', 'Shards that this process has, of 256', () => ownership.owned().length);
  observeSockets(registry, view.engine);
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
        const sample = sampleLanes(lanes.all(), moment);
        for (const state of LANE_STATES) this.set({ state }, sample.lanes[state]);
        queued.set(sample.queued);
        ages.reset();
        const groups = new Set(ownership.owned().map((shard) => Math.floor(shard / SHARD_GROUPS)));
        for (const holder of HOLDERS) {
          for (const group of groups) {
            const dueAtMs = sample.oldestDueAtMs[holder].get(group) ?? nowMs;
            ages.set({ held_by: holder, shard_group: group }, Math.max(0, nowMs - dueAtMs) / MS);
          }
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
    help: 'How long the oldest delivery is due, by whether its endpoint or we keep it waiting and by group of 16 shards',
    labelNames: ['held_by', 'shard_group'],
    registers,
  });
};
