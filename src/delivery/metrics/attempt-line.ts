/**
 * Builds one wide log line per attempt, without secrets: of the URL only the origin, of the response only its status
 * and size. The response itself is in the attempt's row, for users that may see the webhook.
 */
import { isInternalError, labelOf } from '../attempt/http/outcome.ts';
import type { Attempt } from '../attempt/attempt.ts';
import type { Entry } from '../policy/entry.ts';

export type RecordResult = { isWritten: boolean; durationMs: number };

const rounded = (ms: number | null | undefined): number | undefined => (ms == null ? undefined : Math.round(ms));

const attemptFields = ({ outcome, startedAt, durationMs, wire }: Attempt, dueAt: Date): object => ({
  outcome: labelOf(outcome),
  // Only of internal errors: text from an endpoint is not logged.
  why: isInternalError(outcome) && 'why' in outcome ? outcome.why : undefined,
  blockedAddress: outcome.kind === 'blocked' ? outcome.address : undefined,
  status: outcome.reply?.code,
  origin: wire?.origin,
  isReused: wire?.isReused,
  isRepeated: wire?.isRepeated,
  requestBytes: wire?.requestBytes,
  // Only the stored part of the body.
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

/** Returns the fields of the line; times are in milliseconds, and undefined fields are omitted. */
export function attemptLine(entry: Entry, record: RecordResult, workerId: number): object {
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
}
