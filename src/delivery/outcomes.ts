/**
 * The stream of outcomes: each entry that a worker records passes here once, to the parts that count, log and report it. They are
 * `AttemptMetrics` (delivery-metrics.ts), `HourlyStats` (hourly.ts), and the log and the warnings below.
 */
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Attempt } from './attempt/attempt.ts';
import { isInternalError, labelOf } from './attempt/http/attempt-outcome.ts';
import type { Entry } from './policy/entry.ts';
import type { DisableReason } from './policy/policy.ts';
import type { Recorder } from './record/record.ts';

/** `isWritten`: committed. Otherwise the shard was lost: the next owner repeats the attempt, and counts and reports it. */
type RecordResult = { isWritten: boolean; durationMs: number };

/** A consumer must not throw: the entry would not be recorded, or stay in its lane. */
export type OutcomeConsumer = {
  /** Takes an entry before it is recorded. */
  completed?: (entry: Entry) => void;
  recorded: (entry: Entry, result: RecordResult) => void;
};

/** Wraps a recorder, so that the consumers get each entry before its own callback does. */
export function withConsumers(recorder: Recorder, clock: Clock, consumers: readonly OutcomeConsumer[]): Recorder {
  return {
    ...recorder,
    record: (entry, onRecorded) => {
      for (const consumer of consumers) consumer.completed?.(entry);
      const startedMs = clock.monotonicMs();
      recorder.record(entry, (isWritten) => {
        const result = { isWritten, durationMs: clock.monotonicMs() - startedMs };
        for (const consumer of consumers) consumer.recorded(entry, result);
        onRecorded(isWritten);
      });
    },
  };
}

// Logs one line for each attempt.

const rounded = (ms: number | null | undefined): number | undefined => (ms == null ? undefined : Math.round(ms));

const attemptFields = ({ outcome, startedAt, durationMs, wire, traceId }: Attempt, dueAt: Date): object => ({
  trace_id: traceId,
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

/**
 * Returns the fields of the one log line of an attempt, without secrets: of the URL only the origin, of the response
 * only its status and size. The response itself is in the attempt's row, for users that may see the webhook. Times are
 * in milliseconds, and undefined fields are omitted.
 */
function attemptLine(entry: Entry, record: RecordResult, workerId: number): object {
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

/** Entries without an attempt are not logged: disabling a webhook may end a million of them. */
const levelOf = (attempt: Attempt): 'info' | 'debug' => (attempt.outcome.kind === 'delivered' ? 'debug' : 'info');

/** A log line costs 24 µs including the file, a whole delivery 50 to 135 µs: so successes are logged at level `debug`. */
export function createAttemptLog(log: Log, workerId: number): OutcomeConsumer {
  return {
    recorded: (entry, result) => {
      const level = entry.attempt === null ? null : levelOf(entry.attempt);
      if (level !== null && log.isLevelEnabled(level)) log[level](attemptLine(entry, result, workerId), 'attempt');
    },
  };
}

// Notifies stores about failing webhooks, once the failure is committed.

/**
 * `about`: a warning halfway to being disabled, or why the webhook was disabled. `epoch`: the epoch in which it
 * failed.
 */
export type Notice = { shard: number; webhookId: number; epoch: number; about: 'warning' | DisableReason };

/** Sends a notice in the background: neither throws nor blocks. */
export type Notify = (notice: Notice) => void;

/** Notifies the store after an entry with a warning. A crash after the commit loses the warning, which is never sent twice. */
export function createWarnings(log: Log, notify: Notify): OutcomeConsumer {
  return {
    recorded: ({ isWarning, shard, delivery }, { isWritten }) => {
      if (!isWarning || !isWritten) return;
      const { webhookId, epoch } = delivery;
      log.info({ webhook: webhookId, shard }, 'webhook is halfway to being disabled');
      notify({ shard, webhookId, epoch, about: 'warning' });
    },
  };
}
