/** Arrivals at the receiver, by delivery and by the worker that sent them; and which of them may be duplicates. */
import type { IncomingHttpHeaders } from 'node:http';

export type Arrival = {
  /** The life of the worker that sent it: each has another header prefix. */
  life: string;
  /** Webhook and resource; every published event has another resource. */
  delivery: string;
  attempt: number;
  /** When the attempt started: the second that its signature has. */
  startedMs: number;
  arrivedMs: number;
  /** When the response was sent, on the monotonic clock; never, if the sender had disconnected. */
  answeredMs: number;
  /** When the sender disconnected before it had a response; never, if it waited. */
  hungUpMs: number;
  /** The intended status; 0 is a connection reset by the receiver. */
  status: number;
};

/** When a life was disturbed, and its deliveries may be sent again: killed, frozen, or cut off from the database. */
export type Fault = { life: string; atMs: number; what: string };

/** Two consecutive arrivals of one delivery. `tooMuchAfter` is the one before them if only because of it `again` is one too many. */
export type Duplicate = { again: Arrival; before: Arrival; tooMuchAfter?: Arrival };

const LIFE = /^(l\d+)-webhook-attempt$/;

export function lifeIn(headers: IncomingHttpHeaders): { life: string; attempt: number } {
  for (const [name, value] of Object.entries(headers)) {
    const life = LIFE.exec(name)?.[1];
    if (life !== undefined) return { life, attempt: Number(value) };
  }
  throw new Error(`No worker of the fleet sends such headers: ${JSON.stringify(headers)}`);
}

/** The log line of a worker that suspends itself, or that others took for dead. */
const GIVES_UP = /"time":"([^"]+)".*"msg":"[^"]*running attempts are aborted/g;

/** When a life suspended itself, according to its log. */
export function suspensionsIn(life: string, said: string): Fault[] {
  return [...said.matchAll(GIVES_UP)].map(([, time = '']) => {
    return { life, atMs: Date.parse(time) - performance.timeOrigin, what: 'suspended' };
  });
}

const RESET = 0;
/** Requests sent before a fault have arrived this long after it, also at a busy receiver. */
const ON_THE_WIRE_MS = 1_000;
/** A disconnect within this time of a fault belongs to it; a busy receiver sees it late. */
const ONE_FAULT_MS = 1_000;

/** Returns the name of an arrival, equal to that of its recorded attempt. */
export function nameOf({ life, delivery, attempt }: Pick<Arrival, 'life' | 'delivery' | 'attempt'>): string {
  return [life, delivery, attempt].join(' ');
}

/** A sender repeats a request at once, and only once, if its reused connection was reset without a response. */
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
  /** For each load, by its name. */
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

  /** Sets the source of the suspensions that workers log. */
  readSuspensions(said: () => Fault[]): void {
    this.#said = said;
  }

  fault(life: string, what: string, atMs = performance.now()): void {
    this.faults.push({ life, atMs, what });
  }

  /** Deliveries that arrived and were not refused by the receiver, each counted once. */
  get delivered(): number {
    return this.#delivered;
  }

  /** The same, of the load with this name only. */
  deliveredOf(load: string): number {
    return this.#deliveredOf.get(load) ?? 0;
  }

  wasDelivered(delivery: string): boolean {
    return this.#byDelivery.get(delivery)?.some(({ status }) => status === 200) ?? false;
  }

  sentBy(life: string): readonly Arrival[] {
    return this.#byLife.get(life) ?? [];
  }

  /** Returns the number of open requests of a life. */
  inFlight(life: string): number {
    return this.sentBy(life).filter(
      ({ answeredMs, hungUpMs }) => Math.min(answeredMs, hungUpMs) === Number.POSITIVE_INFINITY,
    ).length;
  }

  /**
   * Returns arrivals of a delivery that was not to be sent again: the one before was not refused, so this is no retry. If the
   * receiver resets a reused connection, the sender may take it for one that was idle for too long, and repeats the
   * same attempt once.
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

  /** Returns the suspensions that workers logged. They occur if the fleet shares its cores with other processes. */
  suspensions(): Fault[] {
    return this.#said();
  }

  /**
   * Returns the first fault of the sender between the start of the attempt and its arrival; undefined if it had none. A killed worker's
   * requests are read late by a busy receiver, and a frozen worker sends the request that it had begun.
   */
  faultBefore(arrival: Arrival, faults = this.faultsByLife()): Fault | undefined {
    const { life, startedMs, arrivedMs } = arrival;
    return faults
      .get(life)
      ?.filter(({ atMs }) => startedMs <= atMs && atMs <= arrivedMs)
      .toSorted((one, other) => one.atMs - other.atMs)[0];
  }

  /** Returns exchanges that the sender aborted without a fault or a log line of its life. */
  strangeHangUps(): Arrival[] {
    const faults = this.faultsByLife();
    return this.arrivals.filter(({ life, hungUpMs }) => {
      const isKnown = () => faults.get(life)?.some(({ atMs }) => Math.abs(atMs - hungUpMs) < ONE_FAULT_MS) ?? false;
      return hungUpMs !== Number.POSITIVE_INFINITY && !isKnown();
    });
  }

  /**
   * Returns duplicates that no fault explains: one of the life that sent `before`, no later than `again` arrived, at which `before`
   * was in flight, or answered and not among the `recorded`. An attempt that starts again after a fault may be repeated once
   * like any other. Decided at the end, because a request in transit when its sender was killed arrives a moment later.
   */
  unexplained(recorded: ReadonlySet<string>): Duplicate[] {
    const faults = this.faultsByLife();
    const isExplained = (before: Arrival, again: Arrival): boolean => {
      const name = nameOf(before);
      // A life that was frozen and owns the shard again may send again: its record is the last of that name.
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

  /** Returns the faults and the logged suspensions of each life. */
  faultsByLife(): Map<string, Fault[]> {
    return Map.groupBy([...this.faults, ...this.suspensions()], ({ life }) => life);
  }
}
