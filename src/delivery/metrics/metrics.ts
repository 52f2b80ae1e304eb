/** Everything that the engine shows of itself. One that nobody asks counts all the same, into a registry of its own. */
import { Counter, type Registry } from 'prom-client';
import { createAttemptMetrics, type AttemptMetrics } from './attempts.ts';
import { observeEngine, type EngineView } from './engine.ts';
import { createShardMetrics, type ShardMetrics } from './shards.ts';

export type EngineMetrics = {
  attempts: AttemptMetrics;
  shards: ShardMetrics;
  /** A webhook was switched off because nothing arrives there. */
  deactivated: () => void;
  /** The worker, whose state is looked at when somebody asks. */
  watch: (view: EngineView) => void;
};

export const createEngineMetrics = (registry: Registry): EngineMetrics => {
  const deactivations = new Counter({
    name: 'halcyon_webhook_deactivations_total',
    help: 'Webhooks that were switched off because nothing arrives there',
    registers: [registry],
  });
  return {
    attempts: createAttemptMetrics(registry),
    shards: createShardMetrics(registry),
    deactivated: () => deactivations.inc(),
    watch: (view) => observeEngine(registry, view),
  };
};
