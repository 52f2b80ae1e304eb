/** Metrics of shards that change their owner. */
import { Counter, type Registry } from 'prom-client';
import { childOf } from './child.ts';

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
