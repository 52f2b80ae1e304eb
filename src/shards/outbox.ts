/**
 * Applies changes of the home database to the databases of the stores. The home database writes them in the transaction of the change,
 * and any process applies them: in the order of their ids for each database, and each once, because the database marks them as applied
 * in the transaction that applies them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import { isUnavailable, SHARD_MOVES } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import { inTime, type Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import {
  deleteChanges,
  enqueueForAll,
  enqueueForShard,
  listChanges,
  listWaiting,
  lockForApplying,
  markApplied,
  readWaiting,
  type ChangeKind,
  type OutboxChange,
} from './outbox-sql.ts';
import type { Registry } from '@prometheus-io/client';
import { createCachedRead, scrapeGauge } from '#metrics/metrics-server.ts';
import type { ShardMap } from './map.ts';

/** A database to which changes are applied. */
export type Target = {
  id: number;
  sql: Sql;
  apply: (tx: Tx, change: OutboxChange) => Promise<void>;
};

const POLL_MS = 1_000;
const BATCH = 50;
/** A response to a change waits this long until the change is applied. */
export const FLUSH_MS = 2_000;
/** Changes are committed at most this long after they were enqueued; a response is sent later. */
const RECENT_MS = 10_000;

/** The shard was assigned to the home database since this process read the map. */
class MapChanged extends Error {
  override readonly name = 'MapChanged';
  readonly code = SHARD_MOVES;
}

/** Adds a change of one shard in the transaction of the change. Throws `MapChanged` if the home database owns the shard. */
export async function enqueue(tx: Queryable, change: { shard: number; kind: ChangeKind; body: object }): Promise<void> {
  if (!(await enqueueForShard(tx, change))) throw new MapChanged(`Shard ${change.shard} has moved: try again`);
}

/** Waits until running processes have applied all changes; returns false if some are left after two seconds. */
export async function areChangesApplied(home: Sql): Promise<boolean> {
  const endMs = performance.now() + FLUSH_MS;
  for (;;) {
    if ((await listWaiting(home)).length === 0) return true;
    if (performance.now() > endMs) return false;
    await delay(POLL_MS / 20);
  }
}

type Deps = {
  home: Sql;
  clock: Clock;
  log: Log;
  /** Returns whether the map has other databases. */
  hasOthers: () => boolean;
  /** Returns the database with this id; undefined if this process does not have it. */
  targetOf: (id: number) => Target | undefined;
  /** How long `flush` waits for a database. */
  flushMs: number;
};

/** The changes that are being applied to a database, and a further run that was requested meanwhile. */
type Run = { now: Promise<void>; next: Promise<void> | undefined };

export class Outbox implements Running {
  readonly #deps: Deps;
  readonly #stopping = new AbortController();
  readonly #runs = new Map<number, Run>();
  /** Databases that are down or do not respond: responses do not wait for them. */
  readonly #late = new Set<number>();
  #enqueuedAtMs = -Infinity;
  #polling: Promise<void> = Promise.resolve();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Starts to apply changes. */
  start(): void {
    this.#polling = this.#poll();
  }

  /** Adds a change of one shard, as `enqueue`. */
  async enqueue(tx: Queryable, change: { shard: number; kind: ChangeKind; body: object }): Promise<void> {
    this.noteEnqueued();
    await enqueue(tx, change);
  }

  /** Adds a change for all other databases. */
  async enqueueForAll(tx: Queryable, change: { kind: ChangeKind; body: object }): Promise<void> {
    this.noteEnqueued();
    await enqueueForAll(tx, change);
  }

  /** Notes that a trigger has added a change. */
  noteEnqueued(): void {
    this.#enqueuedAtMs = this.#deps.clock.monotonicMs();
  }

  /** Applies the changes of this process, so that its next response shows them; gives up after `flushMs`. */
  async flush(): Promise<void> {
    const { clock, flushMs } = this.#deps;
    if (clock.monotonicMs() - this.#enqueuedAtMs > RECENT_MS) return;
    let waiting: readonly number[] = [];
    // The home database may not respond either.
    const apply = async (): Promise<boolean> => {
      waiting = (await this.#listWaiting()).filter((id) => !this.#late.has(id));
      await Promise.all(waiting.map((id) => this.#applyTo(id)));
      return false;
    };
    if (await inTime(flushMs, apply(), true)) for (const id of waiting) if (this.#runs.has(id)) this.#late.add(id);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#polling;
    await Promise.all([...this.#runs.values()].map(({ now }) => now));
  }

  async #poll(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // Does not wait: a database that does not respond does not delay the others.
      for (const id of await this.#listWaiting()) void this.#applyTo(id);
      await delay(POLL_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Returns the databases that have changes to apply; none while the home database is down. */
  async #listWaiting(): Promise<number[]> {
    const { home, log, hasOthers } = this.#deps;
    if (!hasOthers()) return [];
    try {
      return await listWaiting(home);
    } catch (error) {
      if (!isUnavailable(error)) log.error({ err: error }, 'reading the outbox failed; retrying');
      return [];
    }
  }

  /** Applies what is waiting for a database when this is called, after a run that has begun already. Never rejects. */
  async #applyTo(id: number): Promise<void> {
    const target = this.#deps.targetOf(id);
    if (target === undefined) return;
    const running = this.#runs.get(id);
    if (running === undefined) return this.#begin(target);
    running.next ??= running.now.then(() => this.#begin(target));
    await running.next;
  }

  async #begin(target: Target): Promise<void> {
    const run: Run = { now: this.#run(target), next: undefined };
    this.#runs.set(target.id, run);
    await run.now;
    if (this.#runs.get(target.id) === run && run.next === undefined) this.#runs.delete(target.id);
  }

  async #run(target: Target): Promise<void> {
    const { log } = this.#deps;
    // After a failure the changes are applied one by one, so that a change that cannot be applied is the only one that fails.
    for (let limit = BATCH; !this.#stopping.signal.aborted;) {
      try {
        const count = await this.#applyBatch(target, limit);
        this.#late.delete(target.id);
        if (count < limit) return;
        limit = BATCH;
      } catch (error) {
        if (isUnavailable(error)) {
          this.#late.add(target.id);
          return log.warn({ database: target.id, err: error }, 'outbox waits: database unavailable');
        }
        if (limit === 1)
          return log.error({ database: target.id, err: error }, 'a change of the outbox cannot be applied; retrying');
        limit = 1;
      }
    }
  }

  /** Returns the number of changes that were read. */
  async #applyBatch({ id, sql, apply }: Target, limit: number): Promise<number> {
    const { home } = this.#deps;
    const ids = await transaction(sql, async (tx) => {
      await lockForApplying(tx);
      const changes = await listChanges(home, id, limit);
      if (changes.length === 0) return [];
      const fresh = await markApplied(
        tx,
        changes.map((change) => change.id),
      );
      for (const change of changes) if (fresh.has(change.id)) await apply(tx, change);
      return changes.map((change) => change.id);
    });
    if (ids.length > 0) await deleteChanges(home, ids);
    return ids.length;
  }
}

/** Registers the metrics of the outbox. Each process reports the same state, so those of several processes are not added up. */
export function observeOutbox(
  registry: Registry,
  { home, clock, map }: { home: Sql; clock: Clock; map: () => ShardMap },
): void {
  const read = createCachedRead(() => readWaiting(home), clock);
  const register = (
    name: string,
    help: string,
    valueOf: (waiting: { changes: number; oldestSeconds: number }) => number,
  ) =>
    scrapeGauge(registry, { name, help, label: 'database', aggregator: 'max' }, async () => {
      const others = map().databases.filter(({ address }) => address !== null);
      const waiting = others.length === 0 ? [] : await read();
      return (
        waiting &&
        others.map(({ id, name: database }) => {
          const found = waiting.find((one) => one.database === id);
          return [database, found === undefined ? 0 : valueOf(found)] as const;
        })
      );
    });
  register(
    'halcyon_outbox_changes',
    'Changes of the home database that another database has not applied',
    ({ changes }) => changes,
  );
  register(
    'halcyon_outbox_oldest_seconds',
    'Age of the oldest change that another database has not applied',
    ({ oldestSeconds }) => oldestSeconds,
  );
}
