/**
 * Whose turn it is: the ring of ready lanes, cut by how fast they are and by whether the first attempt of a delivery or a later
 * one is next. The part whose share of the slots is used up is passed over, so its lanes wait for each other alone. Each
 * step costs the same, with ten lanes ready or 100,000.
 */
import type { Lane } from './lane.ts';
import type { Pending } from './loaded-deliveries.ts';
import type { ActiveTarget } from './target.ts';
import type { Speed } from './latency-stats.ts';
import { Fifo } from './fifo.ts';
import { Quota } from './quota.ts';
import { shareOf, Slots, type Held, type SlotLimits } from './slots.ts';

export type TurnLimits = SlotLimits & {
  /** What one store may have of the slots. */
  storeSlotsPercent: number;
  /** What all webhooks to one origin together may have of the slots. */
  originSlotsPercent: number;
};

/** A delivery that is being sent: it holds a slot, and a part of its store's and its origin's, until `end`. */
export type Turn = Held & {
  readonly lane: Lane;
  readonly target: ActiveTarget;
  readonly delivery: Pending;
  /** How many the lane had under way with this one. */
  readonly alongside: number;
  /** Under which its shard is ours while it starts: what becomes of it is recorded under no other. */
  fence: number | undefined;
  isLate: boolean;
  /** Those among whom it waits to be late, until it is over. */
  age: Set<Turn> | undefined;
};

type Part = {
  readonly speed: Speed;
  readonly isRetry: boolean;
  readonly lanes: Fifo<Lane>;
  /** Who was parked goes before those who came later, else they would take what it waited for. */
  readonly woken: Fifo<Lane>;
};

/** Where a lane was parked, and has to let in the next one who can use what it does not. */
export type Waited = { readonly quota: Quota<number | string, Lane>; readonly key: number | string };

const isClosed = (lane: Lane): boolean => lane.isClosed;
const SPEEDS = ['proven', 'unproven', 'slow'] as const satisfies readonly Speed[];

export class Turns {
  readonly slots: Slots;
  readonly #mayStart: (lane: Lane) => boolean;
  readonly #parts: readonly Part[] = SPEEDS.flatMap((speed) =>
    [false, true].map((isRetry) => ({ speed, isRetry, lanes: new Fifo<Lane>(), woken: new Fifo<Lane>() })),
  );
  readonly #stores: Quota<number | string, Lane>;
  readonly #origins: Quota<number | string, Lane>;
  #tickets = 0;

  /** `mayStart`: the lane has something to send, and nothing but its turn holds it back. */
  constructor(limits: TurnLimits, mayStart: (lane: Lane) => boolean) {
    this.slots = new Slots(limits);
    this.#mayStart = mayStart;
    this.#stores = new Quota(shareOf(limits.slots, limits.storeSlotsPercent));
    this.#origins = new Quota(shareOf(limits.slots, limits.originSlotsPercent));
  }

  /** Puts the lane behind all others that are ready, unless it waits already or has nothing to send. */
  list(lane: Lane): void {
    if (lane.isListed || !this.#mayStart(lane)) return;
    this.#tickets += 1;
    lane.ticket = this.#tickets;
    lane.isListed = true;
    this.#partOf(lane).lanes.push(lane);
  }

  /** Takes the next delivery of the lane whose turn it is; undefined when nobody may start. */
  next(): Turn | undefined {
    for (let part = this.#choose(); part !== undefined; part = this.#choose()) {
      const turn = this.#takeFrom(part);
      if (turn !== undefined) return turn;
    }
    return undefined;
  }

  /** The exchange is slow, or late for its endpoint: from now on only slow lanes wait for it. */
  turnLate(turn: Turn): void {
    turn.isLate = true;
    turn.lane.tempo.turnedLate();
    this.slots.turnSlow(turn);
  }

  /** The exchange is over: what it held is free, and who waited for it is ready. */
  end(turn: Turn): void {
    turn.lane.tempo.ended(turn.isLate);
    this.slots.end(turn);
    const { delivery, target } = turn;
    this.#stores.release(delivery.storeId);
    this.#origins.release(target.origin);
    for (const speed of SPEEDS) {
      this.#wake(this.#stores, delivery.storeId, speed);
      this.#wake(this.#origins, target.origin, speed);
    }
  }

  /** Lets go of lanes that were closed. Who was woken comes by and passes on what it does not use. */
  forgetClosed(): void {
    for (const waiting of [...this.#parts.map(({ lanes }) => lanes), this.#stores, this.#origins])
      waiting.prune(isClosed);
  }

  /** Of those who may start the one that waited longest, but first attempts that are owed their reserve go before. */
  #choose(): Part | undefined {
    let chosen: Part | undefined;
    let isOwed = false;
    let ticket = 0;
    for (const part of this.#parts) {
      const first = part.woken.peek() ?? part.lanes.peek();
      if (first === undefined || !this.slots.mayStart(part.speed)) continue;
      const owed = this.slots.owes(part.speed, part.isRetry);
      if (chosen !== undefined && (owed === isOwed ? first.ticket > ticket : isOwed)) continue;
      [chosen, isOwed, ticket] = [part, owed, first.ticket];
    }
    return chosen;
  }

  #takeFrom(part: Part): Turn | undefined {
    const lane = part.woken.shift() ?? part.lanes.shift();
    if (lane === undefined) return undefined;
    lane.isListed = false;
    const { waited } = lane;
    lane.waited = null;
    const turn = this.#start(lane, part, waited !== null);
    // What it waited for and does not use is for the next one who waits there.
    if (waited !== null && turn === undefined) this.#wake(waited.quota, waited.key, part.speed);
    return turn;
  }

  #start(lane: Lane, { speed, isRetry }: Part, isWoken: boolean): Turn | undefined {
    const { first, target } = lane;
    if (first === undefined || target?.isActive !== true || !this.#mayStart(lane)) return undefined;
    // What is known of it changed while it waited: it goes on to wait where it belongs, and keeps its ticket.
    const part = this.#partOf(lane);
    if (part.speed !== speed || part.isRetry !== isRetry) return this.#move(lane, part);
    const full = this.#fullFor(first.storeId, target.origin);
    if (full !== null) {
      lane.isListed = true;
      full.quota.park(full.key, speed, lane, isWoken);
      return undefined;
    }
    const delivery = lane.take();
    if (delivery === undefined) return undefined;
    this.#stores.take(delivery.storeId);
    this.#origins.take(target.origin);
    const turn: Turn = {
      lane,
      target,
      delivery,
      share: speed,
      isRetry,
      alongside: lane.inFlight,
      fence: undefined,
      isLate: false,
      age: undefined,
    };
    this.slots.start(turn);
    return turn;
  }

  #move(lane: Lane, part: Part): undefined {
    lane.isListed = true;
    part.lanes.push(lane);
  }

  #fullFor(storeId: number, origin: string): Waited | null {
    if (!this.#stores.hasRoom(storeId)) return { quota: this.#stores, key: storeId };
    if (!this.#origins.hasRoom(origin)) return { quota: this.#origins, key: origin };
    return null;
  }

  /** Lets in one who waited for the key at that speed; those who have nothing to send any more leave on the way. */
  #wake(quota: Waited['quota'], key: Waited['key'], speed: Speed): void {
    for (;;) {
      const lane = quota.wake(key, speed);
      if (lane === undefined) return;
      lane.isListed = this.#mayStart(lane);
      if (!lane.isListed) continue;
      const part = this.#partOf(lane);
      part.woken.push(lane);
      if (part.speed !== speed) continue;
      lane.waited = { quota, key };
      return;
    }
  }

  #partOf({ speed, first }: Lane): Part {
    const isRetry = first !== undefined && first.attempts > 0;
    for (const part of this.#parts) if (part.speed === speed && part.isRetry === isRetry) return part;
    throw new Error(`no part of the ring is for ${speed}`);
  }
}
