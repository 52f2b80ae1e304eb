/** A recorder that is watched: every attempt passes it, so it is where attempts are counted and told of. */
import type { Clock } from '#kernel/clock.ts';
import type { Log } from '#kernel/log.ts';
import type { Entry } from '../record/entry.ts';
import type { Recorder } from '../record/record.ts';
import { attemptLine, type WhoSends } from './attempt-line.ts';
import type { AttemptMetrics } from './attempts.ts';

type Deps = { clock: Clock; log: Log; metrics: AttemptMetrics; who: WhoSends };

/** The line of one that failed is of level `info`, of one that succeeded `debug`; what is not wanted is not made. */
const levelOf = ({ attempt }: Entry): 'info' | 'debug' => (attempt?.outcome.kind === 'delivered' ? 'debug' : 'info');

export const observed = (recorder: Recorder, { clock, log, metrics, who }: Deps): Recorder => ({
  ...recorder,
  record: async (entry) => {
    metrics.landed(entry);
    const startedMs = clock.monotonicMs();
    const isWritten = await recorder.record(entry);
    const durationMs = clock.monotonicMs() - startedMs;
    metrics.recorded(entry, { isWritten, durationMs });
    const level = levelOf(entry);
    if (log.isLevelEnabled(level)) log[level](attemptLine(entry, { isWritten, durationMs }, who), 'attempt');
    return isWritten;
  },
});
