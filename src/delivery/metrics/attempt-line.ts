/**
 * One wide line of the log an attempt: all that an operator asks about it, and nothing that may be secret. Of the address
 * its host and no path or query, of the answer its status and its size: headers and bodies are in the attempt's row, which
 * those who may see the webhook can read.
 */
import { labelOf } from '../exchange/outcome.ts';
import type { Entry } from '../record/entry.ts';

export type WhoSends = { workerId: number; fenceOf: (shard: number) => number | undefined };

type Recorded = { isWritten: boolean; durationMs: number };

const whatIsNext = ({ next }: Entry): object =>
  'state' in next ? { ended: next.state } : { nextAt: next.dueAt.toISOString() };

const whatHolds = ({ webhook }: Entry): object =>
  webhook === null ? {} : { failures: webhook.consecutiveFailures, pausedUntil: webhook.pausedUntil?.toISOString() };

/** Milliseconds are rounded to whole ones; what is undefined is left out of the line. */
export const attemptLine = (entry: Entry, record: Recorded, { workerId, fenceOf }: WhoSends): object => {
  const { shard, delivery, attempt } = entry;
  return {
    delivery: delivery.id,
    event: delivery.eventId,
    webhook: delivery.webhookId,
    store: delivery.storeId,
    shard,
    fence: fenceOf(shard),
    worker: workerId,
    attempt: entry.attempts,
    ...(attempt !== null && {
      outcome: labelOf(attempt.outcome),
      status: attempt.outcome.reply?.code,
      answerBytes: attempt.outcome.reply?.body.length,
      waitMs: Math.max(0, attempt.startedAt.getTime() - delivery.dueAt.getTime()),
      exchangeMs: Math.round(attempt.durationMs),
    }),
    recordMs: Math.round(record.durationMs),
    isRecorded: record.isWritten,
    ...whatIsNext(entry),
    ...whatHolds(entry),
  };
};
