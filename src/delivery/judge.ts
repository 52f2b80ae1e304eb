/** What an attempt's outcome makes of its delivery and its webhook: pure, ready to be recorded. */
import type { Pending } from './lane.ts';
import { healthAfter, verdictOn, type Health, type RetryProfile } from './policy.ts';
import type { Entry } from './record/record.ts';

export type Judgement = { entry: Entry; health: Health; pausedUntilMs: number };

export const judge = (given: {
  shard: number;
  delivery: Pending;
  attempt: NonNullable<Entry['attempt']>;
  profile: RetryProfile;
  health: Health;
  pausedUntilMs: number;
  now: Date;
  random: number;
}): Judgement => {
  const { shard, delivery, attempt, now } = given;
  const number = delivery.attempts + 1;
  const verdict = verdictOn(attempt.outcome, number, given.profile, given.random);
  const health = healthAfter(given.health, attempt.outcome, now);
  const pauseMs = verdict.kind === 'retry' ? verdict.pauseMs : 0;
  const pausedUntilMs = pauseMs > 0 ? Math.max(given.pausedUntilMs, now.getTime() + pauseMs) : given.pausedUntilMs;
  const hasChanged = pauseMs > 0 || health.consecutiveFailures !== given.health.consecutiveFailures;
  const pausedUntil = pausedUntilMs > now.getTime() ? new Date(pausedUntilMs) : null;
  return {
    health,
    pausedUntilMs,
    entry: {
      shard,
      delivery,
      attempt,
      attempts: attempt.outcome.kind === 'ours' ? delivery.attempts : number,
      next: verdict.kind === 'retry' ? { dueAt: new Date(now.getTime() + verdict.afterMs) } : { state: verdict.kind },
      webhook: hasChanged ? { ...health, pausedUntil } : null,
    },
  };
};

/** A delivery that ends without an attempt: its webhook is gone, or its event is. */
export const ended = (shard: number, delivery: Pending): Entry => ({
  shard,
  delivery,
  attempt: null,
  attempts: delivery.attempts,
  next: { state: 'failed' },
  webhook: null,
});
