/**
 * What counts, logs and reports each entry that a worker records, beside the metrics (`AttemptMetrics` in delivery-metrics.ts).
 */
import type { Log } from '#core/log.ts';
import type { Attempt } from './attempt/attempt.ts';
import { isInternalError, labelOf } from './attempt/http/attempt-outcome.ts';
import type { Entry } from './policy/entry.ts';
import type { DisableReason } from './policy/policy.ts';
import type { OutcomeConsumer, RecordResult } from './record/record.ts';
import { isRefused } from '#db/unavailable.ts';
import { bucketOf, emptyHistogram } from '#core/histogram.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { storedAttempt } from './record/record-sql.ts';
import { addHours, type HourRow } from './delivery-sql.ts';

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

// Hourly statistics of attempts per webhook: counted in memory as attempts are recorded and added to the table every few seconds, so an
// attempt costs a map look-up and no statement. They only feed charts: a crash loses the last seconds, and a statement whose COMMIT result
// got lost is counted twice.

export type HourlyStatsSettings = {
  hourlyStatsEveryMs: number;
  /**
   * Rows (one per webhook, hour and outcome, some 400 bytes) kept while the database does not accept them; attempts
   * that need another row are not counted. As many more may wait while a statement is running.
   */
  hourlyStatsRows: number;
};

const HOUR_MS = 3_600_000;
/** A few seconds fit in one statement; a backlog after a database outage takes several. */
const ROWS_PER_STATEMENT = 5_000;

export class HourlyStats implements Running, OutcomeConsumer {
  readonly #runtime: Pick<Runtime, 'sql' | 'log'>;
  readonly #settings: HourlyStatsSettings;
  #rows = new Map<string, HourRow>();
  #uncounted = 0;
  #isFailing = false;
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;

  constructor(runtime: Pick<Runtime, 'sql' | 'log'>, settings: HourlyStatsSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), this.#settings.hourlyStatsEveryMs);
  }

  /** Writes the remaining rows; if that fails they are lost. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#flushing;
    await this.flush();
  }

  recorded(entry: Entry, { isWritten }: { isWritten: boolean }): void {
    if (isWritten) this.add(entry);
  }

  /** Counts a recorded entry, if it has a row in the history. */
  add(entry: Entry): void {
    const { shard, delivery } = entry;
    const attempt = storedAttempt(entry);
    if (attempt === null) return;
    const hour = Math.floor(attempt.startedAt.getTime() / HOUR_MS);
    const outcome = labelOf(attempt.outcome);
    const row = this.#row(`${delivery.webhookId} ${hour} ${outcome}`, () => {
      return {
        shard,
        webhookId: delivery.webhookId,
        hourMs: hour * HOUR_MS,
        outcome,
        attempts: 0,
        durations: emptyHistogram(),
      };
    });
    if (row === undefined) {
      this.#uncounted += 1;
      return;
    }
    const bucket = bucketOf(Math.round(attempt.durationMs));
    row.attempts += 1;
    row.durations[bucket] = (row.durations[bucket] ?? 0) + 1;
  }

  /** Adds the collected rows to the table and keeps those that it does not accept for the next flush. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flush().finally(() => (this.#flushing = undefined));
    return this.#flushing;
  }

  #row(key: string, make: () => HourRow): HourRow | undefined {
    const known = this.#rows.get(key);
    if (known !== undefined || this.#rows.size >= this.#settings.hourlyStatsRows) return known;
    const row = make();
    this.#rows.set(key, row);
    return row;
  }

  async #flush(): Promise<void> {
    const { sql, log } = this.#runtime;
    const pending = [...this.#rows.values()];
    this.#rows = new Map();
    if (this.#uncounted > 0)
      log.error({ attempts: this.#uncounted }, 'hourly statistics incomplete: row limit reached');
    this.#uncounted = 0;
    while (pending.length > 0) {
      const rows = pending.slice(0, ROWS_PER_STATEMENT);
      try {
        await addHours(sql, rows);
        this.#isFailing = false;
      } catch (error) {
        // Retrying rejected rows would fail again and block all others.
        const isLost = isRefused(error);
        if (isLost)
          log.error({ err: error, rows: rows.length }, 'hourly statistics rejected by the database; rows dropped');
        else {
          if (!this.#isFailing) log.warn({ err: error }, 'writing hourly statistics failed; retrying');
          this.#isFailing = true;
          return this.#requeue(pending);
        }
      }
      pending.splice(0, rows.length);
    }
  }

  /** Merges rows that were not written with those collected meanwhile. */
  #requeue(rows: readonly HourRow[]): void {
    for (const row of rows) {
      const { webhookId, hourMs, outcome, attempts, durations } = row;
      const existing = this.#row(`${webhookId} ${hourMs / HOUR_MS} ${outcome}`, () => row);
      if (existing === undefined) this.#uncounted += attempts;
      if (existing === undefined || existing === row) continue;
      existing.attempts += attempts;
      for (const [bucket, count] of durations.entries())
        existing.durations[bucket] = (existing.durations[bucket] ?? 0) + count;
    }
  }
}
