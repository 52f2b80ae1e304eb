/** What an attempt's outcome makes of its delivery and its webhook: pure, ready to be recorded. */
import { dayOfId, startOfDay } from '#kernel/ids.ts';
import type { Pending } from '../lanes/lane.ts';
import { healthAfter, verdictOn, type Health, type RetryProfile } from './policy.ts';
import type { Entry } from '../record/record.ts';

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
  // The id carries the day it was made on; its age is taken from that day's end, so it is never given up too early.
  const ageMs = now.getTime() - startOfDay(dayOfId(delivery.id) + 1).getTime();
  const { profile, random } = given;
  const verdict = verdictOn(attempt.outcome, { attempt: number, ageMs, profile, random });
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
