/** What arrived at the receiver, by delivery and by the worker that sent it; and what of that may come twice. */
import type { IncomingHttpHeaders } from 'node:http';

export type Arrival = {
  /** Which life of which worker sent it: each starts with another prefix of its headers. */
  life: string;
  /** Webhook and resource; everything published is another resource. */
  delivery: string;
  attempt: number;
  arrivedMs: number;
  /** When our answer went out; never, where the sender was gone before. On the monotonic clock. */
  answeredMs: number;
  /** When the sender hung up before it had an answer; never, where it waited for it. */
  hungUpMs: number;
  /** What we meant to answer; 0 is a connection that we reset. */
  status: number;
};

/** When a life was hurt, and what may be sent again because of it: killed, frozen, or cut off from the database. */
export type Fault = { life: string; atMs: number; what: string };

/** Two arrivals of one delivery, one after the other. `tooMuchAfter` is the one before them where only because of it `again` is too much. */
export type Duplicate = { again: Arrival; before: Arrival; tooMuchAfter?: Arrival };

const LIFE = /^(l\d+)-webhook-attempt$/;

export function lifeIn(headers: IncomingHttpHeaders): { life: string; attempt: number } {
  for (const [name, value] of Object.entries(headers)) {
    const life = LIFE.exec(name)?.[1];
    if (life !== undefined) return { life, attempt: Number(value) };
  }
  throw new Error(`No worker of the fleet sends such headers: ${JSON.stringify(headers)}`);
}

/** What a worker says that stops by itself, or finds that others took it for dead. */
const GIVES_UP = /"time":"([^"]+)".*"msg":"[^"]*running attempts are aborted/g;

/** When a life stopped by itself, as it said. */
export function suspensionsIn(life: string, said: string): Fault[] {
  return [...said.matchAll(GIVES_UP)].map(([, time = '']) => {
    return { life, atMs: Date.parse(time) - performance.timeOrigin, what: 'suspended' };
  });
}

const RESET = 0;
/** What was sent before a fault has arrived by then, also at a receiver that is busy. */
const ON_THE_WIRE_MS = 1_000;
/** A hang-up within this time of a fault is its own; a receiver that is busy sees it late. */
const ONE_FAULT_MS = 1_000;

/** An arrival as the record of its attempt is called. */
export function nameOf({ life, delivery, attempt }: Pick<Arrival, 'life' | 'delivery' | 'attempt'>): string {
  return [life, delivery, attempt].join(' ');
}

/** What a sender does at once, and not twice, whose connection had served before and was reset without an answer. */
const isSentOnceMore = (before: Arrival, again: Arrival): boolean =>
  before.status === RESET && nameOf(before) === nameOf(again);

export class Ledger {
  readonly arrivals: Arrival[] = [];
  /** Arrivals whose signature is not that of the webhook's key. */
  readonly missigned: string[] = [];
  readonly faults: Fault[] = [];
  readonly #byDelivery = new Map<string, Arrival[]>();
  readonly #byLife = new Map<string, Arrival[]>();
  #delivered = 0;
  /** Of each load, by its name. */
  readonly #deliveredOf = new Map<string, number>();
  #said: () => Fault[] = () => [];

  add(arrival: Arrival): void {
    this.arrivals.push(arrival);
    const same = this.#byDelivery.get(arrival.delivery) ?? [];
    if (arrival.status === 200 && !same.some(({ status }) => status === 200)) this.#count(arrival);
    this.#byDelivery.set(arrival.delivery, [...same, arrival]);
    const sent = this.#byLife.get(arrival.life);
    if (sent === undefined) this.#byLife.set(arrival.life, [arrival]);
    else sent.push(arrival);
  }

  #count({ delivery }: Arrival): void {
    this.#delivered += 1;
    const [, load = ''] = / ([^-]*)-/.exec(delivery) ?? [];
    this.#deliveredOf.set(load, (this.#deliveredOf.get(load) ?? 0) + 1);
  }

  /** What the workers say of themselves. */
  heard(said: () => Fault[]): void {
    this.#said = said;
  }

  fault(life: string, what: string, atMs = performance.now()): void {
    this.faults.push({ life, atMs, what });
  }

  /** Deliveries that arrived and were not refused by us, each counted once. */
  get delivered(): number {
    return this.#delivered;
  }

  /** The same, of the load with this name alone. */
  deliveredOf(load: string): number {
    return this.#deliveredOf.get(load) ?? 0;
  }

  wasDelivered(delivery: string): boolean {
    return this.#byDelivery.get(delivery)?.some(({ status }) => status === 200) ?? false;
  }

  sentBy(life: string): readonly Arrival[] {
    return this.#byLife.get(life) ?? [];
  }

  /** What a life has open with us at this moment. */
  inFlight(life: string): number {
    return this.sentBy(life).filter(
      ({ answeredMs, hungUpMs }) => Math.min(answeredMs, hungUpMs) === Number.POSITIVE_INFINITY,
    ).length;
  }

  /**
   * Arrivals of a delivery that nobody had to send: the one before was not refused, so this is no retry of it. Where we
   * reset a connection that had served before, the sender may take it for one that was idle for too long, and sends the
   * same attempt once more at once.
   */
  duplicates(): Duplicate[] {
    return [...this.#byDelivery.values()].flatMap((arrivals) =>
      arrivals.slice(1).flatMap((again, at) => {
        const [previous, before] = [arrivals[at - 1], arrivals[at]];
        if (before === undefined) return [];
        const isRetry = before.status !== 200 && again.attempt > before.attempt;
        if (isRetry) return [];
        if (!isSentOnceMore(before, again)) return [{ again, before }];
        const isTooMuch = previous !== undefined && isSentOnceMore(previous, before);
        return isTooMuch ? [{ again, before, tooMuchAfter: previous }] : [];
      }),
    );
  }

  /** Workers that said that they stopped by themselves. It happens where the fleet shares its cores with others. */
  suspensions(): Fault[] {
    return this.#said();
  }

  /** Exchanges that the sender gave up, without a fault of its life and without a word of it. */
  strangeHangUps(): Arrival[] {
    const faults = this.#faultsByLife();
    return this.arrivals.filter(({ life, hungUpMs }) => {
      const isKnown = () => faults.get(life)?.some(({ atMs }) => Math.abs(atMs - hungUpMs) < ONE_FAULT_MS) ?? false;
      return hungUpMs !== Number.POSITIVE_INFINITY && !isKnown();
    });
  }

  /**
   * Duplicates that no fault accounts for: one of the life that sent `before`, no later than `again` came, at which `before`
   * was in flight, or answered and not among the `recorded`. An attempt that begins anew after a fault may be sent once more
   * like any other. Judged at the end, because what was on the wire when its sender was killed arrives a moment after.
   */
  unexplained(recorded: ReadonlySet<string>): Duplicate[] {
    const faults = this.#faultsByLife();
    const isExplained = (before: Arrival, again: Arrival): boolean => {
      const name = nameOf(before);
      // A life that was frozen and has the shard again may send again: what it records is the last of that name.
      const arrivals = this.#byDelivery.get(before.delivery) ?? [];
      const isRecorded = recorded.has(name) && arrivals.findLast((other) => nameOf(other) === name) === before;
      const explains = ({ atMs }: Fault) =>
        before.arrivedMs < atMs + ON_THE_WIRE_MS &&
        again.arrivedMs >= atMs &&
        (before.answeredMs > atMs || !isRecorded);
      return faults.get(before.life)?.some(explains) ?? false;
    };
    return this.duplicates().filter(
      ({ before, again, tooMuchAfter }) =>
        !isExplained(before, again) && !(tooMuchAfter !== undefined && isExplained(tooMuchAfter, before)),
    );
  }

  #faultsByLife(): Map<string, Fault[]> {
    return Map.groupBy([...this.faults, ...this.suspensions()], ({ life }) => life);
  }
}
