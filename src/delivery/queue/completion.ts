/** Completes an attempt: updates the state of its lane and returns the entry to record. */
import type { Clock } from '#core/clock.ts';
import type { DeactivationSettings } from '../policy/deactivation.ts';
import { momentOf } from '../policy/backoff.ts';
import { HEALTHY } from '../policy/policy.ts';
import type { Attempt } from '../attempt/attempt.ts';
import { decide, type Entry } from '../policy/entry.ts';
import type { ScheduledAttempt } from './run-queue.ts';

export type CompletionSettings = DeactivationSettings & {
  /** An attempt that takes longer counts as slow. */
  slowAfterMs: number;
};

/** Applies an outcome to the lane. `loopIsLagging`: our own event loop accounts for the duration of the attempt. */
export function complete(
  {
    lane,
    target,
    delivery,
    fence,
    inFlight,
  }: Pick<ScheduledAttempt, 'lane' | 'target' | 'delivery' | 'fence' | 'inFlight'>,
  attempt: Attempt,
  loopIsLagging: boolean,
  { clock, random, settings }: { clock: Clock; random: () => number; settings: CompletionSettings },
): Entry {
  // Ignores results of attempts from an older epoch.
  const isOldEpoch = lane.health !== null && lane.health.epoch > target.epoch;
  const { entry, health, backoff, isPendingDisable } = decide({
    shard: lane.shard,
    fence,
    delivery,
    attempt,
    profile: target.retryProfile,
    health: lane.health?.epoch === target.epoch ? lane.health : HEALTHY,
    backoff: lane.startConditions.backoff,
    isProbe: lane.startConditions.isProbing,
    isPendingDisable: lane.pendingDisableEpoch === target.epoch,
    deactivation: settings,
    moment: momentOf(clock),
    random: random(),
  });
  if (!isOldEpoch) {
    lane.health = { ...health, epoch: target.epoch };
    lane.startConditions.backoff = backoff;
    lane.pendingDisableEpoch = isPendingDisable ? target.epoch : null;
  }
  lane.attemptEnded();
  lane.latency.record(attempt.outcome, {
    durationMs: attempt.durationMs,
    isSlow: attempt.durationMs > settings.slowAfterMs,
    inFlight,
    hasMoreToSend: lane.first !== undefined,
    loopIsLagging,
  });
  return entry;
}
