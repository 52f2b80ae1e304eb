/** What delivers in a process, and what is shared out by the shards that its worker has. */
import type { Sealer } from '#database/seal.ts';
import type { Guard } from '#delivery/exchange/guard.ts';
import type { EngineMetrics } from '#delivery/metrics/metrics.ts';
import { Worker } from '#delivery/worker.ts';
import type { Mint } from '#events/batch/mint.ts';
import { startSnapshots } from '#events/daily/snapshots.ts';
import type { Running } from '#kernel/lifecycle.ts';
import { createSwitchOff } from '#webhooks/switch-off.ts';
import type { AppDeps } from './app.ts';
import { VERSION } from './version.ts';
import { openNative } from './publishing.ts';

/** The worker with the settings of the process; not started. */
export const createWorker = (
  { config, sql, direct, clock, random, log }: Pick<AppDeps, 'config' | 'sql' | 'direct' | 'clock' | 'random' | 'log'>,
  sealer: Sealer,
  guard: Guard,
  metrics: EngineMetrics,
  mint: Mint,
): Worker =>
  new Worker({
    sql,
    direct,
    clock,
    leaseClock: clock,
    random,
    log,
    sealer,
    guard,
    metrics,
    switchOff: createSwitchOff(openNative(config, mint).changelog),
    settings: {
      ...config.delivery,
      headerPrefix: config.naming.webhookHeaderPrefix,
      relationPrefix: config.naming.relationPrefix,
      userAgent: `Halcyon/${VERSION}`,
    },
  });

/** Where deliveries are made, for the same shards: so it goes on while no API is served. */
export const tellOfDays = (
  { config, sql, clock, log }: Pick<AppDeps, 'config' | 'sql' | 'clock' | 'log'>,
  worker: Worker,
  mint: Mint,
): Running => {
  const { writeFacts } = openNative(config, mint);
  return startSnapshots({
    sql,
    clock,
    log,
    writeFacts,
    shards: () => worker.ownedShards(),
    settings: config.snapshots,
  });
};
