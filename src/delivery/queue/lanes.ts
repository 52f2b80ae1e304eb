/**
 * The lanes of the shards we own. A lane costs some 1.6 KB beside what it has queued; those without work are forgotten, but for how
 * fast their endpoints were.
 */
import { LRUCache } from 'lru-cache';
import { Lane, type LaneLimits } from './lane.ts';
import { Room, type Events } from './memory-limit.ts';
import type { Tempo } from './latency-stats.ts';

export type LanesLimits = LaneLimits & {
  /** Of how many endpoints without work it is remembered how fast they were. */
  endpointsKept: number;
  /** Deliveries in memory; beyond it each lane holds only a few. */
  heldDeliveries: number;
  /** Lanes in memory; webhooks that are found in the table beyond that wait there for one. */
  heldLanes: number;
};

/** What a webhook that is found in the table gets: its lane; none now, because all are taken, or because it had its turn. */
export type Place = 'lane' | 'full' | 'waits';

/** What those have of the lanes, together, that had one and did nothing with it. */
const SECOND_TURN_SHARE = 0.1;
/** What is left to those that answered last: 10,000 that hang, and were found first, kept the others waiting for some turns. */
const PROVEN_SHARE = 0.25;
/** Places beyond all others, for those that are to be switched off: they are done at once, and must not wait for who hangs. */
const ENDING_SHARE = 0.1;

export class Lanes {
  readonly #limits: LanesLimits;
  readonly #shards = new Map<number, Map<number, Lane>>();
  /** Of lanes that were forgotten. Without it an endpoint that hangs once a minute would be unproven each time, not slow. */
  readonly #tempos: LRUCache<number, Tempo>;
  readonly #room: Room;
  /** Webhooks whose lanes were given up, so many as endpoints are kept; the latest last. */
  readonly #givenUp = new Set<number>();
  #count = 0;

  /** `events`: who keeps the events of what they hold. */
  constructor(limits: LanesLimits, events?: Events) {
    this.#limits = limits;
    this.#tempos = new LRUCache({ max: limits.endpointsKept });
    this.#room = new Room(limits.heldDeliveries, events);
  }

  /** Deliveries in memory, in all lanes. */
  get held(): number {
    return this.#room.held;
  }

  /** How many there are, with work or without. */
  get count(): number {
    return this.#count;
  }

  /**
   * Whether a webhook that is found in the table has a lane, or gets one. What is handed over always does. `isProven`: it
   * answered last.
   */
  placeFor(shard: number, webhookId: number, isProven: boolean): Place {
    if (this.find(shard, webhookId) !== undefined) return 'lane';
    const { heldLanes } = this.#limits;
    if (this.#count >= (isProven ? heldLanes : heldLanes * (1 - PROVEN_SHARE))) return 'full';
    return this.#givenUp.has(webhookId) && this.#count >= heldLanes * SECOND_TURN_SHARE ? 'waits' : 'lane';
  }

  /** Whether a webhook that is to be switched off has a lane, or may have one. */
  hasPlaceToEnd(shard: number, webhookId: number): boolean {
    return this.find(shard, webhookId) !== undefined || this.#count < this.#limits.heldLanes * (1 + ENDING_SHARE);
  }

  /** At most half of the places are taken: who found none is to be looked for again. */
  get hasMuchRoom(): boolean {
    return this.#count * 2 <= this.#limits.heldLanes;
  }

  /** The lane of a webhook, made on first use. */
  get(shard: number, webhookId: number): Lane {
    let lanes = this.#shards.get(shard);
    if (lanes === undefined) this.#shards.set(shard, (lanes = new Map()));
    let lane = lanes.get(webhookId);
    if (lane === undefined) lanes.set(webhookId, (lane = this.#make(shard, webhookId)));
    return lane;
  }

  find(shard: number, webhookId: number): Lane | undefined {
    return this.#shards.get(shard)?.get(webhookId);
  }

  *ofShards(shards: readonly number[]): Generator<Lane> {
    for (const shard of shards) yield* this.#shards.get(shard)?.values() ?? [];
  }

  all(): Generator<Lane> {
    return this.ofShards([...this.#shards.keys()]);
  }

  /** The shard is not ours any more: its lanes are closed and forgotten. */
  close(shard: number): void {
    const lanes = this.#shards.get(shard);
    this.#count -= lanes?.size ?? 0;
    for (const lane of lanes?.values() ?? []) lane.close();
    this.#shards.delete(shard);
  }

  /** Forgets lanes that have nothing to do; what they knew of their webhook is read again when there is work. */
  sweep(): void {
    for (const lane of this.all()) {
      if (lane.holding.isEmpty && !lane.isListed && lane.condemnedEpoch === null) this.#forget(lane);
    }
  }

  /**
   * Gives up the lanes that did nothing since this was called last, if others want their place, or there are too many; answers
   * how many. They are closed: wherever they still stand they are passed over.
   */
  giveUpRested(monotonicMs: number, isWanted: boolean): number {
    const before = this.#count;
    const isPressed = isWanted || before > this.#limits.heldLanes;
    for (const lane of this.all()) {
      if (!lane.hasRested() || !isPressed) continue;
      const { isEmpty } = lane.holding;
      if (!isEmpty && lane.isGoingOn(monotonicMs)) continue;
      if (!isEmpty) this.#givenUp.add(lane.webhookId);
      lane.close();
      this.#forget(lane);
    }
    for (const webhookId of this.#givenUp) {
      if (this.#givenUp.size <= this.#limits.endpointsKept) break;
      this.#givenUp.delete(webhookId);
    }
    return before - this.#count;
  }

  #forget({ shard, webhookId, tempo }: Lane): void {
    if (this.#shards.get(shard)?.delete(webhookId) === true) this.#count -= 1;
    if (tempo.isKnown) this.#tempos.set(webhookId, tempo);
  }

  #make(shard: number, webhookId: number): Lane {
    this.#count += 1;
    // What goes on is none of those who rested.
    this.#givenUp.delete(webhookId);
    const tempo = this.#tempos.get(webhookId);
    return new Lane(shard, webhookId, this.#limits, { tempo, room: this.#room });
  }
}
