/** Prometheus metrics of recoveries. */
import { Counter, Gauge, type Registry } from 'prom-client';

export type RecoveryMetrics = {
  /** Counts deliveries that a recovery created. */
  made: (deliveries: number) => void;
  ended: (state: 'finished' | 'stopped') => void;
  /** Sets the number of unfinished recoveries of the shards of this process. */
  open: (recoveries: number) => void;
};

export function createRecoveryMetrics(registry: Registry): RecoveryMetrics {
  const registers = [registry];
  const events = new Counter({
    name: 'halcyon_recovery_events_total',
    help: 'Events for which a recovery made a delivery',
    registers,
  });
  const ended = new Counter({
    name: 'halcyon_recoveries_ended_total',
    help: 'Recoveries that ended here, by how',
    labelNames: ['state'],
    registers,
  });
  const open = new Gauge({
    name: 'halcyon_recoveries_open',
    help: 'Recoveries of the shards of this process that are not ended',
    registers,
  });
  const byState = { finished: ended.labels('finished'), stopped: ended.labels('stopped') };
  for (const counter of Object.values(byState)) counter.inc(0);
  return {
    made: (deliveries) => events.inc(deliveries),
    ended: (state) => byState[state].inc(),
    open: (recoveries) => open.set(recoveries),
  };
}
