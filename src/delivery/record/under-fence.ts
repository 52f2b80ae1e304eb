/** What the owner of shards writes about them, each time under their fences: outcomes, suspects, switch-offs. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import type { EngineMetrics } from '../metrics/metrics.ts';
import { observed } from '../metrics/observed.ts';
import type { DeactivationSettings } from '../policy/deactivation.ts';
import { warning, type Tell } from './notice.ts';
import { createRecorder, type Recorder } from './record.ts';
import { SwitchOffs, type SwitchOff } from './pending-disable.ts';
import type { Ownership } from '../leases/ownership.ts';
import { Suspects } from '../quarantine/quarantine.ts';
import { Tally, type TallySettings } from '../stats/hourly.ts';

export type UnderFence = { recorder: Recorder; suspects: Suspects; switchOffs: SwitchOffs; tally: Tally };

export const openUnderFence = (deps: {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: EngineMetrics;
  workerId: number;
  ownership: Pick<Ownership, 'fenceOf' | 'lastFenceOf' | 'lost' | 'deaths'>;
  settings: DeactivationSettings & TallySettings & { leaseMs: number };
  /** Switches a webhook off, in the transaction that holds its shard. */
  switchOff: SwitchOff;
  /** Tells the people of a store what became of their webhook. */
  tell: Tell;
  /** The shards may be sent for. */
  onReady: (shards: number[]) => void;
  /** The lane may have something to send now. */
  onReturned: (lane: Lane) => void;
  /** Its settings have to be read again. */
  onSwitchedOff: (lane: Lane) => void;
}): UnderFence => {
  const { sql, clock, log, metrics, workerId, ownership, settings, switchOff, tell, onReady, onReturned } = deps;
  const fenceOf = (shard: number) => ownership.fenceOf(shard);
  const onLost = (shard: number, fence: number) => ownership.lost(shard, fence);
  const fenced = { sql, clock, log, workerId, fenceOf, onLost };
  const suspects = new Suspects({ ...fenced, deathsOf: (shard) => ownership.deaths.of(shard), onReady, onReturned });
  const recorder = createRecorder({
    ...fenced,
    lastFenceOf: ownership.lastFenceOf,
    isNoted: (shard, id) => suspects.isNoted(shard, id),
  });
  const tally = new Tally({ sql, log, settings });
  const seen = observed(recorder, { clock, log, metrics: metrics.attempts, tally, workerId });
  return {
    suspects,
    tally,
    switchOffs: new SwitchOffs({ ...fenced, metrics, settings, switchOff, tell, onDone: deps.onSwitchedOff }),
    recorder: warning(seen, { log, tell }),
  };
};
