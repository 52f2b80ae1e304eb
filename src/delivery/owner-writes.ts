/** Composes all writes of a shard owner that check its fencing tokens: results, quarantine marks, pending disables. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from './queue/lane.ts';
import type { EngineMetrics } from './metrics/metrics.ts';
import { observeRecorder } from './metrics/attempts.ts';
import type { DeactivationSettings } from './policy/deactivation.ts';
import { withWarnings, type Notify } from './record/notice.ts';
import { createRecorder, type Recorder } from './record/record.ts';
import { PendingDisables, type DisableWebhook } from './record/pending-disable.ts';
import type { Ownership } from './leases/ownership.ts';
import { Quarantine } from './quarantine/quarantine.ts';
import { HourlyStats, type HourlyStatsSettings } from './stats/hourly.ts';

export type OwnerWrites = {
  recorder: Recorder;
  quarantine: Quarantine<Lane>;
  pendingDisables: PendingDisables<Lane>;
  hourlyStats: HourlyStats;
};

export function openOwnerWrites(deps: {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: EngineMetrics;
  workerId: number;
  ownership: Pick<Ownership, 'fenceOf' | 'lastFenceOf' | 'lost' | 'crashCounts'>;
  settings: DeactivationSettings & HourlyStatsSettings & { leaseMs: number };
  /** Disables a webhook, in the transaction that locks its shard lease. */
  disableWebhook: DisableWebhook;
  /** Notifies a store about the state of its webhook. */
  notify: Notify;
  /** Deliveries of these shards may be sent. */
  onReady: (shards: number[]) => void;
  /** The lane may have something to send. */
  onReturned: (lane: Lane) => void;
  /** The settings of the lane's webhook have to be read again. */
  onDisabled: (lane: Lane) => void;
}): OwnerWrites {
  const { sql, clock, log, metrics, workerId, ownership, settings, disableWebhook, notify, onReady, onReturned } = deps;
  const fenceOf = (shard: number) => ownership.fenceOf(shard);
  const onLost = (shard: number, fence: number) => ownership.lost(shard, fence);
  const fenced = { sql, clock, log, workerId, fenceOf, onLost };
  const quarantine = new Quarantine<Lane>({
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
    pendingDisables: new PendingDisables<Lane>({
      ...fenced,
      metrics,
      settings,
      disableWebhook,
      notify,
      onDone: deps.onDisabled,
    }),
    recorder: withWarnings(observedRecorder, { log, notify }),
  };
}
