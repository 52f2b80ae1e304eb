/** What is counted of shards that change hands. */
import { Counter, type Registry } from 'prom-client';
import { childOf } from './child.ts';

/** `free`: nobody had it. `dead`: its owner had fallen silent. `own`: we had, and nobody took it meanwhile. */
export type TakeCause = 'free' | 'dead' | 'own';
/** `fenced`: another worker has it. `silent`: our own beat was not confirmed in time. `returned`: handed back, for an even split. */
export type LossCause = 'fenced' | 'silent' | 'returned';

export type ShardMetrics = {
  taken: (cause: TakeCause, shards: number) => void;
  lost: (cause: LossCause, shards: number) => void;
};

const children = <Cause extends string>(counter: Counter<'cause'>, causes: readonly Cause[]) =>
  new Map(causes.map((cause) => [cause, childOf(counter, cause)]));

export const createShardMetrics = (registry: Registry): ShardMetrics => {
  const counter = (name: string, help: string) =>
    new Counter({ name, help, labelNames: ['cause'], registers: [registry] });
  const taken = children<TakeCause>(counter('halcyon_shards_taken_total', 'Shards that were taken, by from whom'), [
    'free',
    'dead',
    'own',
  ]);
  const lost = children<LossCause>(counter('halcyon_shards_lost_total', 'Shards that went, by why'), [
    'fenced',
    'silent',
    'returned',
  ]);
  return {
    taken: (cause, shards) => taken.get(cause)?.inc(shards),
    lost: (cause, shards) => lost.get(cause)?.inc(shards),
  };
};
