/** Everything that the engine shows of itself. One that nobody asks counts all the same, into a registry of its own. */
import type { Registry } from 'prom-client';
import { createAttemptMetrics, type AttemptMetrics } from './attempts.ts';
import { observeEngine, type EngineView } from './engine.ts';
import { createShardMetrics, type ShardMetrics } from './shards.ts';

export type EngineMetrics = {
  attempts: AttemptMetrics;
  shards: ShardMetrics;
  /** The worker, whose state is looked at when somebody asks. */
  watch: (view: EngineView) => void;
};

export const createEngineMetrics = (registry: Registry): EngineMetrics => ({
  attempts: createAttemptMetrics(registry),
  shards: createShardMetrics(registry),
  watch: (view) => observeEngine(registry, view),
});
