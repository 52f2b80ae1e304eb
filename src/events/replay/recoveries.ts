/**
 * Runs the recoveries of the shards of this process. Each round performs one step of each on one connection, so a thousand
 * recoveries make a longer round but not a higher load, and a slow webhook does not delay the others. A shard that changes its
 * owner meanwhile does no harm: of two processes that write the same page, one is rejected.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import type { Running } from '#core/lifecycle.ts';
import type { RecoveryMetrics } from './metrics.ts';
import { openRecoveries, type OpenRecovery } from './recovery-sql.ts';
import { runStep, type RecoverySettings, type EventRanges, type StepDeps } from './recovery-step.ts';

export type RecoveriesDeps = Omit<StepDeps, 'metrics' | 'settings'> & {
  metrics: RecoveryMetrics;
  /** Shards that this process owns at the moment. */
  shards: () => readonly number[];
  settings: RecoverySettings & {
    /** Interval between searches while there are no recoveries. */
    everyMs: number;
    /** Pause between two rounds while there are recoveries, which limits the load on the database. */
    pauseMs: number;
    /** Delay before a failed recovery is retried. */
    retryAfterMs: number;
  };
};

const READ_AT_ONCE = 100;
/** Ranges kept in memory, at most 160 KB each; others are searched for again in each round. */
const RANGES_MAX = 200;

export class Recoveries {
  readonly #deps: RecoveriesDeps;
  #ranges: EventRanges = new Map();
  /** Failed recoveries, with the monotonic time in ms at which each is retried. */
  #failed = new Map<number, number>();

  constructor(deps: RecoveriesDeps) {
    this.#deps = deps;
  }

  /** Performs one step of each unfinished recovery and returns their number. Throws if the database is unavailable. */
  async round(signal?: AbortSignal): Promise<number> {
    const { sql, metrics } = this.#deps;
    const seen = new Set<number>();
    const shards = this.#deps.shards();
    let after: { shard: number; webhookId: number } | undefined = { shard: -1, webhookId: 0 };
    while (shards.length > 0 && after !== undefined) {
      const open: OpenRecovery[] = await openRecoveries(sql, shards, after, READ_AT_ONCE);
      for (const recovery of open) {
        if (signal?.aborted) return seen.size;
        if (await this.#runStep(recovery, signal)) seen.add(recovery.id);
      }
      after = open.length < READ_AT_ONCE ? undefined : open.at(-1);
    }
    this.#retainOnly(seen);
    metrics.open(seen.size);
    return seen.size;
  }

  /** Performs one step; returns false if the recovery has ended. */
  async #runStep(recovery: OpenRecovery, signal?: AbortSignal): Promise<boolean> {
    const { clock, log, settings } = this.#deps;
    const { id, webhookId, storeId } = recovery;
    const nowMs = clock.monotonicMs();
    if (nowMs < (this.#failed.get(id) ?? nowMs)) return true;
    try {
      const result = await runStep(this.#deps, recovery, this.#ranges);
      this.#failed.delete(id);
      return result !== 'ended';
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (signal?.aborted) return true;
      const fields = { err: error, recovery: id, webhook: webhookId, store: storeId };
      if (!this.#failed.has(id)) log.error(fields, 'recovery step failed; retrying');
      this.#failed.set(id, nowMs + settings.retryAfterMs);
      return true;
    }
  }

  #retainOnly(seen: ReadonlySet<number>): void {
    for (const id of this.#failed.keys()) if (!seen.has(id)) this.#failed.delete(id);
    for (const id of this.#ranges.keys()) if (!seen.has(id) || this.#ranges.size > RANGES_MAX) this.#ranges.delete(id);
  }
}

/** A statement that still runs then ends with the process; the next process repeats it. */
const STOP_MS = 2_000;

/** Runs rounds until it is stopped. `stop` waits at most `STOP_MS` for the running statement. */
export function startRecoveries(deps: RecoveriesDeps): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  const { everyMs, pauseMs } = deps.settings;
  const recoveries = new Recoveries(deps);
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      const open = await recoveries.round(signal).catch((error: unknown) => {
        if (signal.aborted) return 0;
        deps.log.warn({ reason: String(error) }, 'recovery round interrupted; the next round continues');
        return 0;
      });
      await delay(open > 0 ? pauseMs : everyMs, undefined, { signal }).catch(() => {});
    }
  };
  const running = run();
  return {
    stop: async () => {
      stopping.abort();
      const late = delay(STOP_MS, undefined, { ref: false });
      await Promise.race([running, late]);
    },
  };
}
