/**
 * One wide line of the log an attempt: all that an operator asks about it, and nothing that may be secret. Of the address
 * the origin and no path or query, of the answer its status and its size: what was answered stands in the attempt's row,
 * which those who may see the webhook can read.
 */
import { isInternalError, labelOf } from '../attempt/http/outcome.ts';
import type { Attempt, Entry } from '../record/entry.ts';

export type RecordResult = { isWritten: boolean; durationMs: number };

const rounded = (ms: number | null | undefined): number | undefined => (ms == null ? undefined : Math.round(ms));

const attemptFields = ({ outcome, startedAt, durationMs, wire }: Attempt, dueAt: Date): object => ({
  outcome: labelOf(outcome),
  // Of a fault of our own alone: what an endpoint says of itself is not for the log.
  why: isInternalError(outcome) && 'why' in outcome ? outcome.why : undefined,
  blockedAddress: outcome.kind === 'blocked' ? outcome.address : undefined,
  status: outcome.reply?.code,
  origin: wire?.origin,
  isReused: wire?.isReused,
  isRepeated: wire?.isRepeated,
  requestBytes: wire?.requestBytes,
  // Of what is kept of it.
  answerCharacters: outcome.reply?.body?.length,
  waitMs: Math.max(0, startedAt.getTime() - dueAt.getTime()),
  connectMs: rounded(wire?.connectMs),
  exchangeMs: rounded(durationMs),
});

const nextFields = ({ next }: Entry): object =>
  'state' in next ? { ended: next.state } : { nextAt: next.dueAt.toISOString() };

const backoffFields = ({ webhook }: Entry): object => ({
  failures: webhook?.consecutiveFailures,
  pausedUntil: webhook?.pausedUntil?.toISOString(),
  probeAt: webhook?.probeAt?.toISOString(),
});

/** Times in milliseconds. What is undefined is left out of the line. */
export const attemptLine = (entry: Entry, record: RecordResult, workerId: number): object => {
  const { shard, fence, delivery, attempt } = entry;
  return {
    delivery: delivery.id,
    event: delivery.eventId,
    webhook: delivery.webhookId,
    store: delivery.storeId,
    shard,
    fence,
    worker: workerId,
    attempt: delivery.attempts + 1,
    ...(attempt !== null && attemptFields(attempt, delivery.dueAt)),
    recordMs: rounded(record.durationMs),
    isRecorded: record.isWritten,
    ...nextFields(entry),
    ...backoffFields(entry),
  };
};
