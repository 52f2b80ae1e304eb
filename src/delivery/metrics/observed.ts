/** A recorder that is watched: every attempt passes it, so it is where attempts are counted and told of. */
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

/** One that ends without an attempt has no line: there may be a million of them, when a webhook is switched off. */
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
      // What a worker did that lost the shard is done again by the next owner, and counted there.
      if (isWritten) hourlyStats.add(entry);
      // A line costs 24 µs with its way to a file, and a whole delivery 50 to 135: so those of successes are not in `info`.
      const level = entry.attempt === null ? null : levelOf(entry.attempt);
      if (level !== null && log.isLevelEnabled(level)) log[level](attemptLine(entry, record, workerId), 'attempt');
      onRecorded(isWritten);
    });
  },
});
