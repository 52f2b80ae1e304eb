/** All metrics of the engine. Without a metrics listener they are counted into a registry of their own. */
import { Counter, type Registry } from 'prom-client';
import type { DisableReason } from '../policy/deactivation.ts';
import { createAttemptMetrics, type AttemptMetrics } from './attempts.ts';
import { childOf } from './child.ts';
import { observeEngine, type EngineView } from './engine.ts';
import { createShardMetrics, type ShardMetrics } from './shards.ts';

const WHYS = ['failures', 'gone'] as const satisfies readonly DisableReason[];

export type EngineMetrics = {
  attempts: AttemptMetrics;
  shards: ShardMetrics;
  /** Counts a webhook that was disabled automatically. */
  deactivated: (why: DisableReason) => void;
  /** Registers the gauges, which read the worker's state when scraped. */
  watch: (view: EngineView) => void;
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
    watch: (view) => observeEngine(registry, view),
  };
}
