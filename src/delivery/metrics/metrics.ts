/** Everything that the engine shows of itself. One that nobody asks counts all the same, into a registry of its own. */
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
  /** A webhook was switched off by ourselves. */
  deactivated: (why: DisableReason) => void;
  /** The worker, whose state is looked at when somebody asks. */
  watch: (view: EngineView) => void;
};

export const createEngineMetrics = (registry: Registry): EngineMetrics => {
  const deactivations = new Counter({
    name: 'halcyon_webhook_deactivations_total',
    help: 'Webhooks that Halcyon switched off, by why: nothing arrived there for long, or the endpoint answered 410',
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
};
