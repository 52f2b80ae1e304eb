/** Converts entries to the columns of the record statement. */
import { isInternalError, labelOf } from '../attempt/http/outcome.ts';
import type { Pending } from '../queue/loaded-deliveries.ts';
import type { Entry } from './entry.ts';
import type { RecordColumns, StateColumns } from './record-sql.ts';

/**
 * Returns the number of the attempt's row, or 0 for none. An internal error is not charged, so it takes no number and
 * writes no row, except the last one, which ends the delivery and is shown.
 */
export const attemptNumberOf = ({ attempt, attempts, next }: Entry): number =>
  attempt === null || (isInternalError(attempt.outcome) && 'dueAt' in next) ? 0 : attempts;

/** `keepResponses`: false if the database rejected text sent by a receiver. */
export const toColumns = (entries: readonly Entry[], now: Date, keepResponses: boolean): RecordColumns => {
  const replies = entries.map(({ attempt }) => attempt?.outcome.reply ?? null);
  return {
    shard: entries.map(({ shard }) => shard),
    deliveryId: entries.map(({ delivery }) => delivery.id),
    storeId: entries.map(({ delivery }) => delivery.storeId),
    webhookId: entries.map(({ delivery }) => delivery.webhookId),
    eventId: entries.map(({ delivery }) => delivery.eventId),
    n: entries.map(attemptNumberOf),
    startedAt: entries.map(({ attempt }) => attempt?.startedAt ?? now),
    durationMs: entries.map(({ attempt }) => Math.round(attempt?.durationMs ?? 0)),
    outcome: entries.map(({ attempt }) => (attempt === null ? '' : labelOf(attempt.outcome))),
    responseCode: replies.map((reply) => reply?.code ?? null),
    responseHeaders: replies.map((reply) => (keepResponses ? (reply?.headers ?? null) : null)),
    responseBody: replies.map((reply) => (keepResponses ? (reply?.body ?? null) : null)),
    state: entries.map(({ next }) => ('state' in next ? next.state : null)),
    before: entries.map(({ delivery }) => delivery.attempts),
    attempts: entries.map(({ attempts }) => attempts),
    faults: entries.map(({ faults }) => faults),
    dueAt: entries.map(({ next }) => ('state' in next ? null : next.dueAt)),
  };
};

/**
 * Returns the newest state of each webhook. Entries of an epoch older than another entry's are ignored: their attempts
 * began before the webhook was disabled.
 */
export const toStates = (entries: readonly Entry[]): StateColumns => {
  const newest = new Map<number, { shard: number; delivery: Pending; state: NonNullable<Entry['webhook']> }>();
  for (const { shard, delivery, webhook } of entries) {
    const isOutdated = (newest.get(delivery.webhookId)?.delivery.epoch ?? 0) > delivery.epoch;
    if (webhook !== null && !isOutdated) newest.set(delivery.webhookId, { shard, delivery, state: webhook });
  }
  const rows = [...newest.values()];
  return {
    shard: rows.map(({ shard }) => shard),
    webhookId: rows.map(({ delivery }) => delivery.webhookId),
    epoch: rows.map(({ delivery }) => delivery.epoch),
    consecutiveFailures: rows.map(({ state }) => state.consecutiveFailures),
    firstFailureAt: rows.map(({ state }) => state.firstFailureAt),
    pausedUntil: rows.map(({ state }) => state.pausedUntil),
    probeAt: rows.map(({ state }) => state.probeAt),
    isPendingDisable: rows.map(({ state }) => state.isPendingDisable),
    isWarned: rows.map(({ state }) => state.isWarned),
  };
};
