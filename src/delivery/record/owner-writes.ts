/** What the owner of shards writes about them, each time under their fences: outcomes, quarantine, switch-offs. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import type { EngineMetrics } from '../metrics/metrics.ts';
import { observeRecorder } from '../metrics/observed.ts';
import type { DeactivationSettings } from '../policy/deactivation.ts';
import { withWarnings, type Notify } from './notice.ts';
import { createRecorder, type Recorder } from './record.ts';
import { PendingDisables, type DisableWebhook } from './pending-disable.ts';
import type { Ownership } from '../leases/ownership.ts';
import { Quarantine } from '../quarantine/quarantine.ts';
import { HourlyStats, type HourlyStatsSettings } from '../stats/hourly.ts';

export type OwnerWrites = {
  recorder: Recorder;
  quarantine: Quarantine;
  pendingDisables: PendingDisables;
  hourlyStats: HourlyStats;
};

export const openOwnerWrites = (deps: {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: EngineMetrics;
  workerId: number;
  ownership: Pick<Ownership, 'fenceOf' | 'lastFenceOf' | 'lost' | 'crashCounts'>;
  settings: DeactivationSettings & HourlyStatsSettings & { leaseMs: number };
  /** Switches a webhook off, in the transaction that holds its shard. */
  disableWebhook: DisableWebhook;
  /** Tells the people of a store what became of their webhook. */
  notify: Notify;
  /** The shards may be sent for. */
  onReady: (shards: number[]) => void;
  /** The lane may have something to send now. */
  onReturned: (lane: Lane) => void;
  /** Its settings have to be read again. */
  onDisabled: (lane: Lane) => void;
}): OwnerWrites => {
  const { sql, clock, log, metrics, workerId, ownership, settings, disableWebhook, notify, onReady, onReturned } = deps;
  const fenceOf = (shard: number) => ownership.fenceOf(shard);
  const onLost = (shard: number, fence: number) => ownership.lost(shard, fence);
  const fenced = { sql, clock, log, workerId, fenceOf, onLost };
  const quarantine = new Quarantine({
    ...fenced,
    crashCountOf: (shard) => ownership.crashCounts.of(shard),
    onReady,
    onReturned,
  });
  const recorder = createRecorder({
    ...fenced,
    lastFenceOf: ownership.lastFenceOf,
    isMarked: (shard, id) => quarantine.isMarked(shard, id),
  });
  const hourlyStats = new HourlyStats({ sql, log, settings });
  const observedRecorder = observeRecorder(recorder, { clock, log, metrics: metrics.attempts, hourlyStats, workerId });
  return {
    quarantine,
    hourlyStats,
    pendingDisables: new PendingDisables({
      ...fenced,
      metrics,
      settings,
      disableWebhook,
      notify,
      onDone: deps.onDisabled,
    }),
    recorder: withWarnings(observedRecorder, { log, notify }),
  };
};
