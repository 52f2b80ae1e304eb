/**
 * The recoveries of a process: those of the shards that its worker has. Each has its turn, one after the other on one connection, so
 * that a thousand at once are a longer round and no heavier load, and a webhook that is slow keeps no other one waiting. Shards
 * that change hands meanwhile do no harm: of two who write a page one is refused.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import type { Running } from '#core/lifecycle.ts';
import type { RecoveryMetrics } from './metrics.ts';
import { openRecoveries, type OpenRecovery } from './recovery-sql.ts';
import { turn, type RecoverySettings, type Stretches, type TurnDeps } from './recovery-step.ts';

export type RecoveriesDeps = Omit<TurnDeps, 'metrics' | 'settings'> & {
  metrics: RecoveryMetrics;
  /** The shards that this process looks after at the moment. */
  shards: () => readonly number[];
  settings: RecoverySettings & {
    /** How often it is looked for recoveries where there were none. */
    everyMs: number;
    /** Between two rounds of those that there are: what keeps them from taking all that the database has. */
    pauseMs: number;
    /** After a failure. */
    retryAfterMs: number;
  };
};

const READ_AT_ONCE = 100;
/** Each is 160 KB at most; of those beyond it is found anew each time. */
const STRETCHES_MAX = 200;

export class Recoveries {
  readonly #deps: RecoveriesDeps;
  #stretches: Stretches = new Map();
  /** Those that failed, and when they are tried again. */
  #failed = new Map<number, number>();

  constructor(deps: RecoveriesDeps) {
    this.#deps = deps;
  }

  /** A turn for each that is open; answers how many those are. Throws where the database cannot be asked. */
  async round(signal?: AbortSignal): Promise<number> {
    const { sql, metrics } = this.#deps;
    const seen = new Set<number>();
    const shards = this.#deps.shards();
    let after: { shard: number; webhookId: number } | undefined = { shard: -1, webhookId: 0 };
    while (shards.length > 0 && after !== undefined) {
      const open: OpenRecovery[] = await openRecoveries(sql, shards, after, READ_AT_ONCE);
      for (const recovery of open) {
        if (signal?.aborted) return seen.size;
        if (await this.#turn(recovery, signal)) seen.add(recovery.id);
      }
      after = open.length < READ_AT_ONCE ? undefined : open.at(-1);
    }
    this.#forgetAllBut(seen);
    metrics.open(seen.size);
    return seen.size;
  }

  /** Whether it is still open, as far as is known. */
  async #turn(recovery: OpenRecovery, signal?: AbortSignal): Promise<boolean> {
    const { clock, log, settings } = this.#deps;
    const { id, webhookId, storeId } = recovery;
    const nowMs = clock.monotonicMs();
    if (nowMs < (this.#failed.get(id) ?? nowMs)) return true;
    try {
      const result = await turn(this.#deps, recovery, this.#stretches);
      this.#failed.delete(id);
      return result !== 'ended';
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (signal?.aborted) return true;
      const about = { err: error, recovery: id, webhook: webhookId, store: storeId };
      if (!this.#failed.has(id))
        log.error(about, 'a recovery could not go on; it is tried again, which is not told again');
      this.#failed.set(id, nowMs + settings.retryAfterMs);
      return true;
    }
  }

  #forgetAllBut(seen: ReadonlySet<number>): void {
    for (const id of this.#failed.keys()) if (!seen.has(id)) this.#failed.delete(id);
    for (const id of this.#stretches.keys())
      if (!seen.has(id) || this.#stretches.size > STRETCHES_MAX) this.#stretches.delete(id);
  }
}

/** What is under way ends with the process all the same, and is done again by the next: nothing is lost by not waiting. */
const STOP_MS = 2_000;

/** Rounds until it is stopped. `stop` waits for the statement that is under way, and not for long. */
export const startRecoveries = (deps: RecoveriesDeps): Running => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const { everyMs, pauseMs } = deps.settings;
  const recoveries = new Recoveries(deps);
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      const open = await recoveries.round(signal).catch((error: unknown) => {
        if (signal.aborted) return 0;
        deps.log.warn(
          { reason: String(error) },
          'the round of recoveries was broken off; the next goes on where it ended',
        );
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
};
