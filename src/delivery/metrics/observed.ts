/** Wraps a recorder: counts and logs every attempt that is recorded. */
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Attempt, Entry } from '../record/entry.ts';
import type { Recorder } from '../record/record.ts';
import { attemptLine } from './attempt-line.ts';
import type { AttemptMetrics } from './attempts.ts';

type Deps = {
  clock: Clock;
  log: Log;
  metrics: AttemptMetrics;
  hourlyStats: { add: (entry: Entry) => void };
  workerId: number;
};

/** Entries without an attempt are not logged: disabling a webhook may end a million of them. */
const levelOf = (attempt: Attempt): 'info' | 'debug' => (attempt.outcome.kind === 'delivered' ? 'debug' : 'info');

export const observeRecorder = (
  recorder: Recorder,
  { clock, log, metrics, hourlyStats, workerId }: Deps,
): Recorder => ({
  ...recorder,
  record: (entry, onRecorded) => {
    metrics.completed(entry);
    const startedMs = clock.monotonicMs();
    recorder.record(entry, (isWritten) => {
      const record = { isWritten, durationMs: clock.monotonicMs() - startedMs };
      metrics.recorded(entry, record);
      // The next owner repeats attempts of a lost shard and counts them.
      if (isWritten) hourlyStats.add(entry);
      // A log line costs 24 µs including the file, a whole delivery 50 to 135 µs: so successes are logged at level
      // `debug`.
      const level = entry.attempt === null ? null : levelOf(entry.attempt);
      if (level !== null && log.isLevelEnabled(level)) log[level](attemptLine(entry, record, workerId), 'attempt');
      onRecorded(isWritten);
    });
  },
});
