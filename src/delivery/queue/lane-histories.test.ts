/**
 * Drives a lane through random histories of its webhook, its deliveries and its owners: no attempt starts that its state forbids, and
 * each delivery ends once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, integer, oneof, property, record } from 'fast-check';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import { ended, type Entry, type Pending } from '../policy/entry.ts';
import { UNKNOWN, fromStored } from '../policy/policy.ts';
import type { Fetch } from './loaded-deliveries.ts';
import { Lane, blockerOf, shownStateOf, type WebhookState } from './lane.ts';
import { RunQueue, type ScheduledAttempt } from './run-queue.ts';
import { complete } from './sender.ts';

const SECOND = 1_000;
const reply = { code: 200, headers: '', body: '' };
const refused = (retryAfterMs: number): Outcome => ({ kind: 'refused', reply: { ...reply, code: 503 }, retryAfterMs });
const DELIVERED: Outcome = { kind: 'delivered', reply };
const TIMED_OUT: Outcome = { kind: 'timed_out', phase: 'answer', reply: null };
const GONE: Outcome = { kind: 'gone', reply: { ...reply, code: 410 } };
/** How an endpoint answers while it does not only succeed. */
const MOODS: readonly (readonly Outcome[])[] = [
  [refused(0)],
  [refused(0), TIMED_OUT],
  [...Array.from({ length: 9 }, () => refused(0)), DELIVERED],
  [DELIVERED, refused(0), refused(20 * SECOND)],
  [DELIVERED, DELIVERED, DELIVERED, GONE],
];
const RATE_PER_SECOND = 5;
const limits = { laneQueue: 6, slotsPerLane: 4, slotsPerSlowLane: 2 };
const slots = {
  slots: 8,
  overdraftSlots: 8,
  slowSlotsPercent: 50,
  newSlotsPercent: 50,
  freshSlotsPercent: 25,
  retrySlotsPercent: 10,
  storeSlotsPercent: 50,
  originSlotsPercent: 50,
};
const settings = {
  slowAfterMs: SECOND,
  deactivateAfterFailures: 8,
  deactivateAfterSeconds: { hour: 60, long: 60 },
};

type Webhook = { epoch: number; isActive: boolean; isBroken: boolean };
type StateRow = { epoch: number; stored: NonNullable<Entry['webhook']> };

/** The rows of a webhook and of its deliveries, and the steps of a worker, with which changes of the rows may interleave. */
class History {
  nowMs = 1_000_000;
  lane = new Lane(0, 2, limits);
  readonly #queue: RunQueue;
  readonly #table = new Map<number, Pending>();
  readonly #ended = new Map<number, string>();
  #webhook: Webhook = { epoch: 0, isActive: true, isBroken: false };
  #state: StateRow | null = null;
  #ids = 0;
  /** Committed, and not yet announced. */
  #announced: Pending[] = [];
  #attempts: ScheduledAttempt[] = [];
  #isolated: Pending[] = [];
  #unrecorded: Entry[] = [];
  #recorded: Entry[] = [];
  #read: { changes: number; row: Webhook; state: StateRow | null } | null = null;
  #fetch: { begun: Fetch; rows: Pending[] | null } | null = null;
  /** The epoch whose disable was requested. */
  #disabling: number | null = null;
  /** What the worker knows by notifications and outcomes: no attempt may start that one of these forbids. */
  #isStale = true;
  #isDisabling = false;
  #pausedUntilMs = 0;
  #failures = 0;
  #knownEpoch = -1;
  #starts: number[] = [];
  readonly #mood: readonly Outcome[];
  #isWorking = true;

  constructor(mood: readonly Outcome[]) {
    this.#mood = mood;
    this.#queue = new RunQueue(slots, (lane) => lane.mayStart(this.nowMs));
    this.takeOver();
  }

  publish(): void {
    if (!this.#webhook.isActive) return;
    const id = (this.#ids += 1);
    const dueAt = new Date(this.nowMs);
    const row = {
      id,
      storeId: 1,
      webhookId: 2,
      epoch: this.#webhook.epoch,
      eventId: id,
      attempts: 0,
      faults: 0,
      dueAt,
    };
    this.#table.set(id, row);
    this.#announced.push(row);
  }

  announce(n: number): void {
    const row = this.#announced.shift();
    if (row === undefined) return;
    if (n % 3 === 0) this.lane.deliveries.markIncomplete();
    else this.lane.deliveries.offer(row);
    this.#update();
  }

  // Settings

  change(n: number): void {
    const { epoch } = this.#webhook;
    if (n % 4 === 0) this.#webhook = { ...this.#webhook, isBroken: true };
    else if (this.#webhook.isActive) this.#webhook = { ...this.#webhook, isActive: false, epoch: epoch + 1 };
    this.#reload();
  }

  repair(): void {
    if (this.#webhook.isActive && !this.#webhook.isBroken) return;
    this.#webhook = { ...this.#webhook, isActive: true, isBroken: false };
    this.#reload();
  }

  #reload(): void {
    this.lane.discardSettings();
    this.#isStale = true;
  }

  read(): void {
    if (this.lane.needsTarget) this.#read ??= { changes: this.lane.changes, row: this.#webhook, state: this.#state };
  }

  apply(): void {
    if (this.#read === null) return;
    const { changes, row, state } = this.#read;
    this.#read = null;
    if (changes !== this.lane.changes) return;
    const inactive = { isActive: false as const, epoch: row.epoch };
    const target = { ...ACTIVE, epoch: row.epoch, ratePerSecond: RATE_PER_SECOND };
    const now = { now: new Date(this.nowMs), nowMs: this.nowMs };
    const stored = state?.epoch === row.epoch ? state.stored : null;
    const known: WebhookState = {
      health: stored === null ? UNKNOWN : { ...stored, hasSucceeded: stored.consecutiveFailures === 0 },
      backoff: fromStored(stored ?? { pausedUntil: null, probeAt: null }, stored?.consecutiveFailures ?? 0, now),
      isPendingDisable: stored?.isPendingDisable === true && stored.consecutiveFailures > 0,
    };
    if (!row.isBroken && row.epoch !== this.#knownEpoch) {
      this.#isDisabling = known.isPendingDisable;
      this.#failures = known.health.consecutiveFailures;
      this.#pausedUntilMs = stored?.pausedUntil?.getTime() ?? 0;
      this.#knownEpoch = row.epoch;
    }
    this.lane.applySettings(row.isBroken ? UNUSABLE : row.isActive ? target : inactive, known);
    this.#isStale = row.isBroken || !row.isActive;
    if (known.isPendingDisable && this.lane.isPendingDisable && !row.isBroken) this.#disabling = row.epoch;
    this.#update();
  }

  /** The transaction that disables a webhook because of its failures. */
  disable(): void {
    if (this.#disabling === null) return;
    const { epoch, isActive } = this.#webhook;
    if (isActive && epoch === this.#disabling) this.#webhook = { ...this.#webhook, isActive: false, epoch: epoch + 1 };
    this.#disabling = null;
    this.#reload();
  }

  // Deliveries

  /** What a healthy database does at once. */
  supply(n: number): void {
    this.read();
    this.apply();
    this.disable();
    this.beginFetch();
    this.select();
    this.endFetch(n);
  }

  beginFetch(): void {
    const { lane } = this;
    if (this.#fetch === null && lane.target !== null && lane.needsFetch)
      this.#fetch = { begun: lane.deliveries.beginFetch(this.nowMs), rows: null };
  }

  select(): void {
    if (this.#fetch === null || this.#fetch.rows !== null) return;
    const { fromMs, limit } = this.#fetch.begun;
    const rows = [...this.#table.values()].filter(({ dueAt }) => dueAt.getTime() >= fromMs);
    this.#fetch.rows = rows.toSorted((a, b) => a.dueAt.getTime() - b.dueAt.getTime() || a.id - b.id).slice(0, limit);
  }

  endFetch(n: number): void {
    if (this.#fetch === null) return;
    const { begun, rows } = this.#fetch;
    const { target, deliveries } = this.lane;
    if (n % 5 !== 0 && rows === null) return;
    this.#fetch = null;
    const isEnding = target?.isActive === false && target !== UNUSABLE;
    if (n % 5 === 0 || rows === null) deliveries.abandonFetch();
    else deliveries.endFetch(rows, begun, isEnding ? Number.POSITIVE_INFINITY : this.nowMs);
    this.#update();
  }

  /** As the dispatcher does after each step. */
  #update(): void {
    const { lane } = this;
    for (const delivery of lane.takeOldEpochs()) this.#unrecorded.push(ended({ shard: 0, fence: 1 }, delivery));
    assert.deepEqual(lane.takeExpired(), []);
    this.#queue.enqueue(lane);
  }

  start(): void {
    const attempt = this.#queue.dequeue();
    if (attempt === undefined) return;
    const { lane, delivery, target, inFlight, isProbe } = attempt;
    assert.equal(lane, this.lane, 'a closed lane sends nothing');
    assert.ok(!this.#isStale && lane.target === target, 'nothing is sent before a changed webhook was read again');
    assert.ok(!this.#isDisabling, 'nothing is sent while a disable is pending');
    assert.ok(this.nowMs >= this.#pausedUntilMs, 'nothing is sent during a pause');
    assert.equal(isProbe, this.#failures >= 5, 'the breaker is open after five failures');
    assert.ok(!isProbe || inFlight === 1, 'a probe runs alone');
    assert.ok(inFlight <= limits.slotsPerLane);
    this.#starts = [...this.#starts.filter((atMs) => atMs > this.nowMs - SECOND), this.nowMs];
    assert.ok(this.#starts.length <= RATE_PER_SECOND + 1, 'the rate is kept');
    assert.ok(this.#table.has(delivery.id) && !this.#isBusy(delivery.id), 'no delivery is sent twice at once');
    assert.ok(delivery.dueAt.getTime() <= this.nowMs && delivery.epoch >= target.epoch);
    this.#attempts.push(attempt);
    lane.startConditions.applyRateLimit(RATE_PER_SECOND, this.nowMs);
    if (delivery.epoch > target.epoch) {
      this.#reload();
      this.#end(attempt, 'returned');
    }
    this.#update();
  }

  #isBusy(id: number): boolean {
    const entries = [...this.#unrecorded, ...this.#recorded];
    const all = [...this.#attempts, ...entries].map(({ delivery }) => delivery);
    return [...all, ...this.#isolated].some((delivery) => delivery.id === id);
  }

  turn(): void {
    this.#isWorking = !this.#isWorking;
  }

  finishOne(n: number): void {
    const attempt = this.#attempts[n % Math.max(1, this.#attempts.length)];
    if (attempt === undefined) return;
    if (n === 11) return this.#end(attempt, 'returned');
    if (n === 12) return this.#end(attempt, 'isolated');
    const outcome = this.#isWorking ? DELIVERED : (this.#mood[n % this.#mood.length] ?? DELIVERED);
    const result = { startedAt: new Date(this.nowMs), durationMs: n * 120, outcome };
    const clock = { now: () => new Date(this.nowMs), monotonicMs: () => this.nowMs };
    const entry = complete(attempt, result, false, { clock, random: () => 0 }, settings);
    if (attempt.target.epoch === this.#knownEpoch) this.#learn(outcome);
    this.#end(attempt, entry);
  }

  #learn(outcome: Outcome): void {
    const isPause = outcome.kind === 'refused' && outcome.retryAfterMs > 0;
    if (isPause) this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.nowMs + outcome.retryAfterMs);
    else this.#failures = outcome.kind === 'delivered' ? 0 : this.#failures + 1;
    if (outcome.kind === 'gone') this.#isDisabling = true;
    if (outcome.kind === 'delivered') this.#isDisabling = false;
    // A series of failures that lasts for long enough requires it as well: that rule is tested in policy/.
    else if (outcome.kind !== 'gone') this.#isDisabling = this.lane.isPendingDisable;
  }

  #end(attempt: ScheduledAttempt, result: Entry | 'returned' | 'isolated'): void {
    const { lane, delivery } = attempt;
    this.#attempts.splice(this.#attempts.indexOf(attempt), 1);
    lane.attemptEnded();
    if (result === 'returned') lane.deliveries.requeue(delivery);
    else if (result === 'isolated') this.#isolated.push(delivery);
    else this.#unrecorded.push(result);
    this.#queue.release(attempt);
    this.#update();
  }

  release(): void {
    for (const delivery of this.#isolated.splice(0)) this.lane.deliveries.requeue(delivery);
    this.#update();
  }

  /** By then the publisher has announced the row. */
  commit(): void {
    const entry = this.#unrecorded[0];
    if (entry === undefined || this.#announced.some(({ id }) => id === entry.delivery.id)) return;
    this.#unrecorded.shift();
    const { delivery, next, attempts, faults, webhook } = entry;
    assert.ok(!this.#ended.has(delivery.id), 'a delivery ends once');
    if ('state' in next) {
      this.#table.delete(delivery.id);
      this.#ended.set(delivery.id, next.state);
    } else this.#table.set(delivery.id, { ...delivery, attempts, faults, dueAt: next.dueAt });
    if (webhook !== null && (this.#state === null || this.#state.epoch <= delivery.epoch))
      this.#state = { epoch: delivery.epoch, stored: webhook };
    this.#recorded.push(entry);
  }

  persist(): void {
    const entry = this.#recorded.shift();
    if (entry === undefined) return;
    const { delivery, next, webhook } = entry;
    this.lane.deliveries.complete(delivery.id, 'dueAt' in next ? next.dueAt.getTime() : null);
    if (webhook?.isPendingDisable === true) this.#reload();
    this.#update();
  }

  // Time, requests and owners

  pass(n: number): void {
    this.nowMs += n ** 4 * 10;
    this.lane.deliveries.wake(this.nowMs);
    this.#update();
  }

  retry(): void {
    this.lane.startConditions.attemptNow(this.nowMs);
    this.#pausedUntilMs = Math.min(this.#pausedUntilMs, this.nowMs);
    this.#update();
  }

  /** The shard gets another owner, which knows what is recorded. */
  takeOver(): void {
    this.lane.close();
    for (const attempt of this.#attempts.splice(0)) {
      attempt.lane.attemptEnded();
      this.#queue.release(attempt);
    }
    [this.#isolated, this.#unrecorded, this.#recorded, this.#announced] = [[], [], [], []];
    [this.#read, this.#fetch, this.#disabling] = [null, null, null];
    [this.#isStale, this.#knownEpoch, this.#starts] = [true, -1, []];
    this.lane = new Lane(0, 2, limits);
    this.lane.deliveries.markIncomplete();
    this.#update();
  }

  /** Removes a lane without work, which nothing may give work any more. */
  sweep(): void {
    if (!this.lane.isEmpty || this.lane.place !== 'outside') return;
    assert.deepEqual([this.lane.inFlight, this.#fetch, this.#disabling], [0, null, null]);
    assert.ok(this.#read === null || this.lane.changes === 0, 'a change of the webhook is read');
    [this.#read, this.#isStale, this.#knownEpoch, this.#starts] = [null, true, -1, []];
    this.lane = new Lane(0, 2, limits);
    this.lane.deliveries.markIncomplete();
    this.#update();
  }

  /** What holds after every step. */
  verify(): void {
    const { lane, nowMs } = this;
    assert.equal(lane.inFlight, this.#attempts.length);
    assert.equal(this.#queue.slots.inFlight, this.#attempts.length);
    const state = lane.stateAt(nowMs);
    if (lane.mayStart(nowMs)) assert.ok(['probing', 'sending', 'ready'].includes(state), state);
    if (lane.isEmpty) assert.deepEqual([lane.deliveries.queued, lane.inFlight, lane.isPendingDisable], [0, 0, false]);
    const shown = shownStateOf(lane, nowMs);
    const isDelayed = shown === 'paused' || shown === 'probing' || state === 'disabling';
    if (isDelayed) assert.equal(blockerOf(lane, nowMs), 'endpoint', state);
    if (shown === 'inactive' || shown === 'unusable') assert.equal(blockerOf(lane, nowMs), 'us', state);
  }

  /** Repairs the webhook and does what the lane asks for. */
  finish(): void {
    this.repair();
    this.#isWorking = true;
    for (let round = 0; round < 2_000 && !(this.#table.size === 0 && this.lane.isEmpty); round += 1) {
      this.announce(1);
      this.supply(1);
      this.start();
      this.finishOne(0);
      this.release();
      this.commit();
      this.persist();
      this.pass(10);
    }
    assert.equal(this.#table.size, 0, 'every delivery has ended');
    assert.equal(this.#ended.size, this.#ids);
    assert.ok(this.lane.isEmpty, 'and the lane may be removed');
    assert.deepEqual([this.lane.place, this.lane.inFlight], ['outside', 0]);
  }
}

const rarely = [
  'change',
  'disable',
  'release',
  'retry',
  'takeOver',
  'read',
  'apply',
  'beginFetch',
  'select',
  'turn',
  'sweep',
] as const;
const often = [
  'publish',
  'announce',
  'supply',
  'supply',
  'endFetch',
  'start',
  'start',
  'finishOne',
  'finishOne',
  'commit',
  'persist',
  'pass',
  'repair',
] as const;
const step = record({
  do: oneof({ weight: 1, arbitrary: constantFrom(...rarely) }, { weight: 9, arbitrary: constantFrom(...often) }),
  n: integer({ min: 0, max: 12 }),
});
const history = record({
  steps: array(step, { minLength: 50, maxLength: 500, size: 'max' }),
  mood: constantFrom(...MOODS),
});

test('in any history, no attempt starts that the state of the lane forbids, and each delivery ends once', () => {
  check(
    property(history, ({ steps, mood }) => {
      const one = new History(mood);
      for (const { do: name, n } of steps) {
        one[name](n);
        one.verify();
      }
      one.finish();
    }),
    { numRuns: 500 },
  );
});
