/** All metrics of the engine. Without a metrics listener they are counted into a registry of their own. */
import { Counter, type Registry, Gauge, type Aggregator } from 'prom-client';
import type { Clock } from '#core/clock.ts';
import { momentOf, type DisableReason, type Moment } from './policy/policy.ts';
import { createAttemptMetrics, type AttemptMetrics, childOf } from './attempt-metrics.ts';
import type { Slots } from './queue/run-queue.ts';
import type { Sockets } from './attempt/http/endpoint-connections.ts';
import {
  type Lane,
  BLOCKERS,
  SHOWN_STATES,
  blockerOf,
  shownStateOf,
  type Blocker,
  type ShownState,
} from './queue/lane.ts';

// Metrics of shards that change their owner.

/**
 * `free`: the shard had no owner. `dead`: its owner had stopped its heartbeats. `own`: this worker took it again after
 * a lapse.
 */
export type TakeCause = 'free' | 'dead' | 'own';
/**
 * `fenced`: another worker owns it. `silent`: no heartbeat of this worker was confirmed in time. `returned`: handed
 * back, for an even split.
 */
export type LossCause = 'fenced' | 'silent' | 'returned';

export type ShardMetrics = {
  taken: (cause: TakeCause, shards: number) => void;
  lost: (cause: LossCause, shards: number) => void;
};

const children = <Cause extends string>(counter: Counter<'cause'>, causes: readonly Cause[]) =>
  new Map(causes.map((cause) => [cause, childOf(counter, cause)]));

export function createShardMetrics(registry: Registry): ShardMetrics {
  const counter = (name: string, help: string) =>
    new Counter({ name, help, labelNames: ['cause'], registers: [registry] });
  const taken = children<TakeCause>(counter('halcyon_shards_taken_total', 'Shards taken, by cause'), [
    'free',
    'dead',
    'own',
  ]);
  const lost = children<LossCause>(counter('halcyon_shards_lost_total', 'Shards lost or handed back, by cause'), [
    'fenced',
    'silent',
    'returned',
  ]);
  return {
    taken: (cause, shards) => taken.get(cause)?.inc(shards),
    lost: (cause, shards) => lost.get(cause)?.inc(shards),
  };
}

// Summarises the lanes in a few numbers. Pure: one walk, 20 ms for 100,000 lanes, only when metrics are scraped.

/** Shards per group: sixteen groups are few enough for one time series each. */
const SHARD_GROUPS = 16;

type GaugeSample = {
  lanes: Record<ShownState, number>;
  /** Number of due deliveries queued in memory. */
  queued: number;
  /**
   * By what delays the delivery and by shard group: a backlog of one slow or rate-limited webhook is not a backlog of
   * this service.
   */
  oldestDueAtMs: Record<Blocker, Map<number, number>>;
};

function sampleLanes(lanes: Iterable<Lane>, moment: Moment): GaugeSample {
  const nowMs = moment.now.getTime();
  const sample: GaugeSample = {
    lanes: { idle: 0, ready: 0, sending: 0, paused: 0, probing: 0, inactive: 0, unusable: 0 },
    queued: 0,
    oldestDueAtMs: { endpoint: new Map(), us: new Map() },
  };
  for (const lane of lanes) {
    const state = shownStateOf(lane, moment.nowMs);
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

// Gauges of the engine, read when metrics are scraped, so that they cost deliveries nothing.

/** The parts of a worker that the gauges read. */
type WatchedParts = {
  lanes: { all: () => Iterable<Lane> };
  ownership: { owned: () => number[] };
  dispatcher: { readonly slots: Slots };
  connections: { readonly sockets: Sockets };
  recorder: { unrecorded: () => number };
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
function observeSockets(registry: Registry, { connections }: WatchedParts): void {
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

function observeEngine(registry: Registry, clock: Clock, slots: number, parts: WatchedParts): void {
  const { lanes, ownership, dispatcher, recorder } = parts;
  const registers = [registry];
  const gauge = createGauges(registry);
  gauge('halcyon_delivery_in_flight', 'Running attempts', () => dispatcher.slots.inFlight);
  gauge('halcyon_delivery_slots', 'Attempts that may run at once', () => slots);
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
    () => recorder.unrecorded(),
    // Each process has a limit of its own.
    'max',
  );
  gauge('halcyon_shards_held', 'Shards that this process owns, of 256', () => ownership.owned().length);
  observeSockets(registry, parts);
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
        for (const state of SHOWN_STATES) this.set({ state }, sample.lanes[state]);
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

const WHYS = ['failures', 'gone'] as const satisfies readonly DisableReason[];

export type EngineMetrics = {
  attempts: AttemptMetrics;
  shards: ShardMetrics;
  /** Counts a webhook that was disabled automatically. */
  deactivated: (why: DisableReason) => void;
  /** Registers the gauges, which read the parts of a worker with so many slots when scraped. */
  watch: (clock: Clock, slots: number, parts: WatchedParts) => void;
};

export function createEngineMetrics(registry: Registry): EngineMetrics {
  const deactivations = new Counter({
    name: 'halcyon_webhook_deactivations_total',
    help: 'Webhooks disabled automatically, by reason: repeated failures, or a 410 response',
    labelNames: ['why'],
    registers: [registry],
  });
  const byWhy = new Map(WHYS.map((why) => [why, childOf(deactivations, why)]));
  return {
    attempts: createAttemptMetrics(registry),
    shards: createShardMetrics(registry),
    deactivated: (why) => byWhy.get(why)?.inc(),
    watch: (clock, slots, parts) => observeEngine(registry, clock, slots, parts),
  };
}
