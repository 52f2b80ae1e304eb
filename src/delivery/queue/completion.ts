/** An attempt is over: what its lane learns from it, and what is recorded. */
import type { Clock } from '#core/clock.ts';
import type { DeactivationSettings } from '../policy/deactivation.ts';
import { momentOf } from '../policy/backoff.ts';
import { judge } from '../policy/judge.ts';
import { HEALTHY } from '../policy/policy.ts';
import type { Attempt, Entry } from '../record/entry.ts';
import type { Turn } from './run-queue.ts';

export type LandingSettings = DeactivationSettings & {
  /** An exchange older than this is slow. */
  slowAfterMs: number;
};

/** `isOurs`: it was our own event loop that took the time. */
export const land = (
  { lane, target, delivery, fence, alongside }: Pick<Turn, 'lane' | 'target' | 'delivery' | 'fence' | 'alongside'>,
  attempt: Attempt,
  isOurs: boolean,
  { clock, random, settings }: { clock: Clock; random: () => number; settings: LandingSettings },
): Entry => {
  // What was under way while the webhook was switched off and on again says nothing of the time after.
  const isLate = lane.health !== null && lane.health.epoch > target.epoch;
  const { entry, health, hold, isCondemned } = judge({
    shard: lane.shard,
    fence,
    delivery,
    attempt,
    profile: target.retryProfile,
    health: lane.health?.epoch === target.epoch ? lane.health : HEALTHY,
    hold: lane.gate.hold,
    isProbe: lane.gate.isProbing,
    isCondemned: lane.condemnedEpoch === target.epoch,
    deactivation: settings,
    moment: momentOf(clock),
    random: random(),
  });
  if (!isLate) {
    lane.health = { ...health, epoch: target.epoch };
    lane.gate.hold = hold;
    lane.condemnedEpoch = isCondemned ? target.epoch : null;
  }
  lane.landed();
  lane.tempo.learn(attempt.outcome, {
    durationMs: attempt.durationMs,
    isSlow: attempt.durationMs > settings.slowAfterMs,
    alongside,
    isWaiting: lane.first !== undefined,
    isOurs,
  });
  return entry;
};
