/**
 * The lanes of the shards we own. A lane costs some 1.6 KB beside what it has queued; those without work are forgotten, but for how
 * fast their endpoints were.
 */
import { LRUCache } from 'lru-cache';
import { Lane, type LaneLimits } from './lane.ts';
import { Room, type Events } from './room.ts';
import type { Tempo } from './tempo.ts';

export type LanesLimits = LaneLimits & {
  /** Of how many endpoints without work it is remembered how fast they were. */
  endpointsKept: number;
  /** Deliveries in memory; beyond it each lane holds only a few. */
  heldDeliveries: number;
};

export class Lanes {
  readonly #limits: LanesLimits;
  readonly #shards = new Map<number, Map<number, Lane>>();
  /** Of lanes that were forgotten. Without it an endpoint that hangs once a minute would be unproven each time, not slow. */
  readonly #tempos: LRUCache<number, Tempo>;
  readonly #room: Room;

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
    for (const lane of this.#shards.get(shard)?.values() ?? []) lane.close();
    this.#shards.delete(shard);
  }

  /** Forgets lanes that have nothing to do; what they knew of their webhook is read again when there is work. */
  sweep(): void {
    for (const lanes of this.#shards.values()) {
      for (const [webhookId, lane] of lanes) {
        if (!lane.holding.isEmpty || lane.isListed) continue;
        lanes.delete(webhookId);
        if (lane.tempo.isKnown) this.#tempos.set(webhookId, lane.tempo);
      }
    }
  }

  #make(shard: number, webhookId: number): Lane {
    const tempo = this.#tempos.get(webhookId);
    return new Lane(shard, webhookId, this.#limits, { tempo, room: this.#room });
  }
}
