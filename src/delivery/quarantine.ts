/**
 * Isolates deliveries that crash their worker (native code, memory, an endless loop). In a shard whose owners crash repeatedly
 * each delivery is marked in the table before it is sent; a take-over counts a crash for each marked delivery (`takeShards`).
 * Those run in the isolation slot and are finally dead-lettered; see delivery/README.md.
 *
 * Counting each attempt when it starts, as other queues do, would need none of this, but a write of some 31 µs for every delivery; and a
 * crash would charge up to 1,023 harmless neighbours with an attempt, of which a profile may have few.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher, type Batcher } from '#db/batch.ts';
import type { Queryable } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { resetCrashCounts } from './leases/leases-sql.ts';
import type { OwnerTokens, Ownership } from './leases/ownership.ts';
import type { Pending } from './policy/entry.ts';
import type { Lane } from './queue/lane.ts';
import { insertMarkers, loadMarkers, type Marker, type StoredMarker, fencesOf } from './record/record-sql.ts';

/**
 * Deliveries that may run at once, by the number of crashes in which they were in flight. Up to 1,024 are in flight at
 * the first one that counts: 16 at once take the harmless ones through in seconds, and the next crashes leave at most
 * 16, then 4, then one.
 */
const CONCURRENCY_BY_CRASHES = [Number.POSITIVE_INFINITY, 16, 4, 1] as const;

/** At this count the delivery ran alone in its worker twice, and the worker crashed each time. */
const DEAD_LETTER_AT_CRASHES = 5;

const concurrencyFor = (crashCount: number): number => CONCURRENCY_BY_CRASHES[crashCount] ?? 1;

/**
 * Limits how many deliveries run at once that were in flight when a worker crashed. The limit falls with each crash, so
 * that the delivery that causes them soon runs alone. Does no I/O.
 */
export class IsolationSlot {
  /** Crash counts by delivery. */
  readonly #running = new Map<number, number>();
  /**
   * The running delivery that excludes every other one, quarantined or not: it waits until nothing else is running, and nothing starts
   * before it has ended. A crash beside a hundred others would prove nothing, and a delivery with a slow receiver is in flight at every
   * crash, whatever causes it.
   */
  exclusiveId: number | undefined;

  get size(): number {
    return this.#running.size;
  }

  /** Admits the delivery unless its own limit or that of a running one would be exceeded. */
  enter(id: number, crashCount: number): boolean {
    const exceedsLimit = (crashes: number) => this.#running.size + 1 > concurrencyFor(crashes);
    if (exceedsLimit(crashCount) || [...this.#running.values()].some(exceedsLimit)) return false;
    this.#running.set(id, crashCount);
    if (concurrencyFor(crashCount) === 1) this.exclusiveId = id;
    return true;
  }

  /** Releases the slot; returns whether the delivery had one. */
  leave(id: number): boolean {
    if (id === this.exclusiveId) this.exclusiveId = undefined;
    return this.#running.delete(id);
  }
}

/**
 * A delivery that crashes workers is pending and due, so it does so within seconds of a take-over, far less than an
 * hour.
 */
const STABLE_AFTER_MS = 3_600_000;

/** Counts, per owned shard, how many consecutive owners crashed. An owner that survives for an hour resets the count. */
export class CrashCounts {
  readonly #worker: number;
  readonly #clock: Clock;
  readonly #byShard = new Map<number, { crashCount: number; sinceMs: number }>();

  constructor(worker: number, clock: Clock) {
    this.#worker = worker;
    this.#clock = clock;
  }

  /** Starts to track shards that were taken. */
  add(shards: readonly { shard: number; crashCount: number }[]): void {
    const sinceMs = this.#clock.monotonicMs();
    for (const { shard, crashCount } of shards) this.#byShard.set(shard, { crashCount, sinceMs });
  }

  of(shard: number): number {
    return this.#byShard.get(shard)?.crashCount ?? 0;
  }

  /** Resets the crash count of shards that this worker has owned for an hour. */
  async resetStable(sql: Queryable): Promise<void> {
    const beforeMs = this.#clock.monotonicMs() - STABLE_AFTER_MS;
    const stable = [...this.#byShard].filter(([, { crashCount, sinceMs }]) => crashCount > 0 && sinceMs < beforeMs);
    if (stable.length === 0) return;
    await resetCrashCounts(
      sql,
      this.#worker,
      stable.map(([shard]) => shard),
    );
    for (const [, entry] of stable) entry.crashCount = 0;
  }
}

/**
 * Deliveries are marked after this many consecutive crashes of owners. A single one may have another cause: a machine
 * switched off, memory exhausted.
 */
const MARK_FROM_CRASHES = 2;
const RETRY_MS = 250;
const BATCH_ROWS = 500;

/** `crashCounts` says how many consecutive owners of a shard crashed. */
type Owned = OwnerTokens & { readonly crashCounts: Pick<Ownership['crashCounts'], 'of'> };

/** The marked deliveries of the owned shards. Writes and loads their markers, and admits them to the isolation slot. */
export class Quarantine {
  readonly #runtime: Pick<Runtime, 'sql' | 'log'>;
  readonly #ownership: Owned;
  /** Markers by shard and delivery. A shard without an entry has not been loaded yet, and nothing may be sent for it. */
  readonly markers = new Map<number, Map<number, { crashCount: number; fence: number }>>();
  /**
   * Shards that had a marker, or owners that crashed repeatedly, when they were loaded; the deliveries of all others need no admission and no
   * marker. A shard stays after it is lost, because its attempts still leave the slot.
   */
  readonly shards = new Set<number>();
  readonly slot = new IsolationSlot();
  #waiting: { lane: Lane; delivery: Pending }[] = [];
  readonly #batcher: Batcher<Marker, boolean>;

  constructor(runtime: Pick<Runtime, 'sql' | 'log'>, ownership: Owned) {
    this.#runtime = runtime;
    this.#ownership = ownership;
    this.#batcher = createBatcher<Marker, boolean>({
      maxRows: BATCH_ROWS,
      run: (markers) => this.#write(markers),
    });
  }

  /**
   * Loads the markers of the shards; nothing may be sent for them before that. Resolves with the shards of which deliveries may
   * be sent from then on.
   */
  async load(shards: readonly number[]): Promise<number[]> {
    const { sql, log } = this.#runtime;
    const fenceOf = (shard: number) => this.#ownership.fenceOf(shard);
    for (;;) {
      const fences = new Map(shards.map((shard) => [shard, fenceOf(shard)]));
      const owned = shards.filter((shard) => fences.get(shard) !== undefined);
      if (owned.length === 0) return [];
      try {
        const rows = await loadMarkers(sql, owned);
        // A shard that was lost and taken again meanwhile has a load of its own in progress.
        const stillOwned = owned.filter((shard) => fenceOf(shard) === fences.get(shard));
        const markers = Map.groupBy(rows, ({ shard }: StoredMarker) => shard);
        for (const shard of stillOwned) {
          const ofShard = new Map((markers.get(shard) ?? []).map((marker) => [marker.deliveryId, marker]));
          this.markers.set(shard, ofShard);
          if (ofShard.size > 0 || this.#haveOwnersCrashed(shard)) this.shards.add(shard);
        }
        this.#logCrashed(rows.filter(({ shard }) => stillOwned.includes(shard)));
        return stillOwned;
      } catch (error) {
        log.warn({ reason: String(error) }, 'loading quarantined deliveries failed; retrying');
        await wait(RETRY_MS);
      }
    }
  }

  lost(shards: readonly number[]): void {
    for (const shard of shards) this.markers.delete(shard);
    this.#waiting = this.#waiting.filter(({ lane }) => !lane.isClosed);
  }

  /**
   * Decides about a dequeued delivery: `send` it now, `never` send it again, or `wait`. One that waits does so here, and returns to the
   * front of its lane when the slot is released.
   */
  admit(lane: Lane, delivery: Pending): 'send' | 'wait' | 'never' {
    const crashCount = this.markers.get(lane.shard)?.get(delivery.id)?.crashCount ?? 0;
    if (crashCount === 0) return 'send';
    if (crashCount >= DEAD_LETTER_AT_CRASHES) return 'never';
    if (this.slot.enter(delivery.id, crashCount)) return 'send';
    this.#waiting.push({ lane, delivery });
    return 'wait';
  }

  /**
   * Returns whether the delivery has to be marked before it is sent: owners of its shard crash, or it is marked
   * already.
   */
  mustMark(shard: number, deliveryId: number): boolean {
    return this.#haveOwnersCrashed(shard) || this.markers.get(shard)?.has(deliveryId) === true;
  }

  #haveOwnersCrashed(shard: number): boolean {
    return this.#ownership.crashCounts.of(shard) >= MARK_FROM_CRASHES;
  }

  /**
   * Marks the delivery under the current fencing token: otherwise the next crash would also count for deliveries that
   * only wait. Returns false if the shard is not owned any more, so that it must not be sent.
   */
  async mark(shard: number, deliveryId: number): Promise<boolean> {
    const fence = this.#ownership.fenceOf(shard);
    const known = this.markers.get(shard)?.get(deliveryId);
    if (fence === undefined || known?.fence === fence) return fence !== undefined;
    const ownsShard = await this.#batcher.submit({ shard, deliveryId });
    if (ownsShard) this.markers.get(shard)?.set(deliveryId, { crashCount: known?.crashCount ?? 0, fence });
    return ownsShard;
  }

  /**
   * Releases the slot of a delivery that was recorded or not sent, and returns the lanes of those that waited for it. Not
   * earlier: while it is marked, a crash caused by the next one would count against it.
   */
  leave(deliveryId: number): Iterable<Lane> {
    return this.slot.leave(deliveryId) ? this.release(() => true) : [];
  }

  /**
   * Moves waiting deliveries back to their lanes, which it returns. All of them, whatever the limit: a lane may be paused by now, and a slot
   * reserved for it would block the others. They are few, and are admitted again here.
   */
  release(matches: (lane: Lane) => boolean): Iterable<Lane> {
    const all = this.#waiting;
    this.#waiting = all.filter(({ lane }) => !matches(lane));
    const returned = all.filter(({ lane }) => matches(lane) && !lane.isClosed);
    // In reverse, so that the one that waited first is at the front.
    for (const { lane, delivery } of returned.toReversed()) lane.deliveries.requeue(delivery);
    return new Set(returned.map(({ lane }) => lane));
  }

  #logCrashed(markers: readonly StoredMarker[]): void {
    const crashed = markers
      .filter(({ crashCount }) => crashCount > 0)
      .map(({ deliveryId, crashCount }) => ({ deliveryId, crashCount }));
    if (crashed.length === 0) return;
    const worst = Math.max(...crashed.map(({ crashCount }) => crashCount));
    this.#runtime.log.warn(
      { deliveries: crashed.length, worst },
      'deliveries were in flight when workers crashed; quarantined',
    );
  }

  async #write(markers: readonly Marker[]): Promise<boolean[]> {
    const { workerId } = this.#ownership;
    const fences = fencesOf(
      this.#ownership,
      markers.map(({ shard }) => shard),
    );
    const owned = new Set(fences.length === 0 ? [] : await insertMarkers(this.#runtime.sql, workerId, fences, markers));
    for (const { shard, fence } of fences) if (!owned.has(shard)) this.#ownership.lost(shard, fence);
    return markers.map(({ shard }) => owned.has(shard));
  }
}
