/** Gauges of the engine, read when metrics are scraped, so that they cost deliveries nothing. */
import { Counter, Gauge, type Aggregator, type Registry } from 'prom-client';
import type { Clock } from '#core/clock.ts';
import type { Slots } from '../queue/slots.ts';
import type { Sockets } from '../attempt/http/connections.ts';
import type { Lane } from '../queue/lane.ts';
import { BLOCKERS, LANE_STATES } from '../queue/lane-state.ts';
import { momentOf } from '../policy/backoff.ts';
import { sampleLanes, SHARD_GROUPS } from './gauge-sample.ts';

/** The parts of a worker that the gauges read. */
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

/** `aggregator`: how a supervisor combines the values of its processes. */
const createGauges =
  (registry: Registry) =>
  (name: string, help: string, read: Read, aggregator: Aggregator = 'sum') =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        registers: [registry],
        aggregator,
        collect() {
          this.set(read());
        },
      }),
    );

/** Registers the metrics of connections. */
function observeSockets(registry: Registry, { connections }: EngineView['engine']): void {
  const registers = [registry];
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_sockets',
      help: 'Connections to endpoints, by state',
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
        // The value is counted elsewhere, since the start of the process.
        collect() {
          this.reset();
          for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
        },
      }),
    );
  since('halcyon_connections_used_total', 'Connections used by exchanges, newly opened or reused', 'from', () => {
    const { opened, reused } = connections.sockets;
    return { opened, reused };
  });
  since('halcyon_tls_handshakes_total', 'TLS handshakes with endpoints, full or resumed', 'kind', () => {
    const { full, resumed } = connections.sockets.handshakes;
    return { full, resumed };
  });
}

export function observeEngine(registry: Registry, view: EngineView): void {
  const { clock, settings } = view;
  const { lanes, ownership, dispatcher, ownerWrites } = view.engine;
  const registers = [registry];
  const gauge = createGauges(registry);
  gauge('halcyon_delivery_in_flight', 'Running attempts', () => dispatcher.slots.inFlight);
  gauge('halcyon_delivery_slots', 'Attempts that may run at once', () => settings.slots);
  gauge(
    'halcyon_delivery_slow',
    'Running attempts that are slow or go to slow endpoints',
    () => dispatcher.slots.slowInFlight,
  );
  gauge('halcyon_delivery_slow_limit', 'Slots for slow attempts', () => dispatcher.slots.slowLimit);
  gauge(
    'halcyon_delivery_unproven',
    'Running attempts to new endpoints, which have not answered fast yet',
    () => dispatcher.slots.newInFlight,
  );
  gauge(
    'halcyon_delivery_unrecorded',
    'Finished attempts that are not recorded yet',
    () => ownerWrites.recorder.unrecorded(),
    // Each process has a limit of its own.
    'max',
  );
  gauge('halcyon_shards_held', 'Shards that this process owns, of 256', () => ownership.owned().length);
  observeSockets(registry, view.engine);
  // One walk over the lanes fills three gauges: this one is collected first and sets the others.
  registry.registerMetric(
    new Gauge({
      name: 'halcyon_lanes',
      help: 'Webhooks with deliveries in memory, by state',
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
        for (const blocker of BLOCKERS) {
          for (const group of groups) {
            const dueAtMs = sample.oldestDueAtMs[blocker].get(group) ?? nowMs;
            ages.set({ held_by: blocker, shard_group: group }, Math.max(0, nowMs - dueAtMs) / MS);
          }
        }
      },
    }),
  );
  const queued = new Gauge({
    name: 'halcyon_delivery_queued',
    help: 'Due deliveries queued in memory; the table may contain more',
    registers,
  });
  const ages = new Gauge({
    name: 'halcyon_delivery_backlog_age_seconds',
    help: 'Time since the oldest delivery was due, by what delays it (its endpoint or this service) and by group of 16 shards',
    labelNames: ['held_by', 'shard_group'],
    registers,
    aggregator: 'max',
  });
}
