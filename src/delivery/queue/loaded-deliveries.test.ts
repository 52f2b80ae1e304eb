import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, integer, property, record } from 'fast-check';
import { LoadedDeliveries, type Fetch } from './loaded-deliveries.ts';
import type { Pending } from '../policy/entry.ts';

const LIMIT = 4;
const SECOND = 1_000;

/** The table, a fetch of it and the records, each in the small steps that others may interleave with. */
class Fixture {
  readonly deliveries = new LoadedDeliveries(LIMIT);
  nowMs = 1_000 * SECOND;
  epoch = 0;
  readonly #table = new Map<number, Pending>();
  /** Committed, and not yet announced to the lane. */
  readonly #handOvers: Pending[] = [];
  /** Taken, and not yet recorded. */
  readonly #sent: Pending[] = [];
  /** Recorded, and the lane is not yet notified. */
  readonly #recorded: { id: number; dueAtMs: number | null }[] = [];
  readonly #outstanding = new Set<number>();
  mostOutstanding = 0;
  readonly published = new Set<number>();
  readonly attempted = new Set<number>();
  #fetch: Fetch | null = null;
  #read: Pending[] | null = null;

  /** Ids commit out of order; a retry of an earlier owner is due later; a misset clock wrote a date far back. */
  publish(n: number): void {
    const id = this.published.size * 7 + n;
    const dueAt = new Date(this.nowMs + (n > 9 ? n * SECOND : 0) - (n === 9 ? 300 * SECOND : 0));
    const row = { id, storeId: 1, webhookId: 2, epoch: this.epoch, eventId: id, attempts: 0, faults: 0, dueAt };
    if (this.published.has(id)) return;
    this.published.add(id);
    this.#table.set(id, row);
    this.#handOvers.push(row);
  }

  /** As an announcement with the row, or as a notification that there is something. */
  handOver(n: number): void {
    const row = this.#handOvers.splice(n % Math.max(1, this.#handOvers.length), 1)[0];
    if (row === undefined) return;
    if (n % 3 === 0 || row.dueAt.getTime() > this.nowMs) this.deliveries.markIncomplete();
    else this.deliveries.offer(row);
  }

  beginFetch(): void {
    if (this.deliveries.needsFetch) this.#fetch = this.deliveries.beginFetch(this.nowMs);
  }

  /** The statement sees the table at one moment between its begin and its end. */
  read(): void {
    const fetch = this.#fetch;
    if (fetch === null || this.#read !== null) return;
    const rows = [...this.#table.values()].filter(({ dueAt }) => dueAt.getTime() >= fetch.fromMs);
    rows.sort((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || a.id - b.id);
    this.#read = rows.slice(0, fetch.limit);
  }

  endFetch(n: number): void {
    if (this.#fetch === null) return;
    if (n % 5 === 0) this.deliveries.abandonFetch();
    else if (this.#read === null) return;
    else this.deliveries.endFetch(this.#read, this.#fetch, this.nowMs);
    this.#fetch = null;
    this.#read = null;
  }

  take(n: number): void {
    const delivery = this.deliveries.take();
    if (delivery === undefined) return;
    const row = this.#table.get(delivery.id);
    assert.ok(row !== undefined, 'an ended delivery is not sent again');
    assert.ok(!this.#outstanding.has(delivery.id), 'a running delivery is not sent again');
    assert.ok(row.dueAt.getTime() <= this.nowMs, 'a retry is not sent early');
    if (n % 7 === 0) return this.deliveries.requeue(delivery);
    this.#leave(delivery);
  }

  switchOff(): void {
    this.epoch += 1;
    for (const delivery of this.deliveries.takeMatching(({ epoch }) => epoch < this.epoch)) this.#leave(delivery);
  }

  #leave(delivery: Pending): void {
    this.attempted.add(delivery.id);
    this.#outstanding.add(delivery.id);
    this.mostOutstanding = Math.max(this.mostOutstanding, this.#outstanding.size);
    this.#sent.push(delivery);
  }

  /**
   * The batch commits: the delivery ended, or is due again later. By then its publisher has received its own commit and announced
   * the row: finding, sending and recording the row are three round trips that began after that one.
   */
  record(n: number): void {
    const delivery = this.#sent[n % Math.max(1, this.#sent.length)];
    if (delivery === undefined || this.#handOvers.some(({ id }) => id === delivery.id)) return;
    this.#sent.splice(this.#sent.indexOf(delivery), 1);
    const dueAtMs = n % 2 === 0 && delivery.epoch === this.epoch ? this.nowMs + 1 + n * SECOND : null;
    if (dueAtMs === null) this.#table.delete(delivery.id);
    else this.#table.set(delivery.id, { ...delivery, dueAt: new Date(dueAtMs) });
    this.#recorded.push({ id: delivery.id, dueAtMs });
  }

  applyRecords(): void {
    const one = this.#recorded.shift();
    if (one === undefined) return;
    this.#outstanding.delete(one.id);
    this.deliveries.complete(one.id, one.dueAtMs);
  }

  pass(seconds: number): void {
    this.nowMs += seconds * SECOND;
    this.deliveries.wake(this.nowMs);
  }

  /** Completes every pending step, and fetches only when the lane asks for it. */
  finish(): void {
    for (let round = 0; round < 1_000 && !(this.#table.size === 0 && this.deliveries.isEmpty); round += 1) {
      this.handOver(1);
      this.read();
      this.endFetch(1);
      this.beginFetch();
      this.take(1);
      this.record(1);
      this.applyRecords();
      if (this.deliveries.wakeAtMs < Number.POSITIVE_INFINITY)
        this.pass(Math.max(0, this.deliveries.wakeAtMs - this.nowMs) / SECOND);
    }
  }

  get left(): number {
    return this.#table.size;
  }
}

const STEPS = [
  'publish',
  'handOver',
  'beginFetch',
  'read',
  'endFetch',
  'take',
  'record',
  'applyRecords',
  'pass',
] as const;
const steps = array(record({ do: constantFrom(...STEPS, 'switchOff'), n: integer({ min: 0, max: 12 }) }), {
  minLength: 20,
  maxLength: 200,
  size: 'max',
});

test('in any interleaving of steps, nothing is lost and nothing is sent twice while it is pending', () => {
  check(
    property(steps, (given) => {
      const fixture = new Fixture();
      for (const step of given) fixture[step.do](step.n);
      fixture.finish();
      assert.equal(fixture.left, 0, 'nothing is left in the table');
      assert.deepEqual(fixture.attempted, fixture.published);
      assert.ok(fixture.deliveries.isEmpty, 'and the lane may be removed');
    }),
    { numRuns: 1_000 },
  );
});

test('a lane holds no more than its limit plus the running attempts', () => {
  check(
    property(steps, (given) => {
      const fixture = new Fixture();
      for (const step of given) {
        fixture[step.do](step.n);
        assert.ok(fixture.deliveries.queued <= LIMIT + fixture.mostOutstanding);
      }
    }),
  );
});
