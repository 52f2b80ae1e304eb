/** The lanes of the shards we own. */
import { Lane, type LaneLimits } from './lane.ts';

export class Lanes {
  readonly #limits: LaneLimits;
  readonly #shards = new Map<number, Map<number, Lane>>();

  constructor(limits: LaneLimits) {
    this.#limits = limits;
  }

  /** The lane of a webhook, made on first use. */
  get(shard: number, webhookId: number): Lane {
    let lanes = this.#shards.get(shard);
    if (lanes === undefined) this.#shards.set(shard, (lanes = new Map()));
    let lane = lanes.get(webhookId);
    if (lane === undefined) lanes.set(webhookId, (lane = new Lane(shard, webhookId, this.#limits)));
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
    for (const lane of this.#shards.get(shard)?.values() ?? []) lane.isClosed = true;
    this.#shards.delete(shard);
  }

  /** Forgets lanes that have nothing to do; what they knew of their webhook is read again when there is work. */
  sweep(): void {
    for (const lanes of this.#shards.values()) {
      for (const [webhookId, lane] of lanes) if (lane.isIdle && !lane.isListed) lanes.delete(webhookId);
    }
  }
}
