/**
 * Runs the recoveries of the shards of this process. Each round performs one step of each on one connection, so a thousand
 * recoveries make a longer round but not a higher load, and a slow webhook does not delay the others. A shard that changes its
 * owner meanwhile does no harm: of two processes that write the same page, one is rejected.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isAnyOpen } from '#db/activity.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { untilStopped, within, type Running, type Pace } from '#core/lifecycle.ts';
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { dayOf, dayOfId, firstIdOfDay } from '#core/ids.ts';
import { bareKindOf } from '#catalog/catalog.ts';
import { compileFilter, payloadOfEvent } from '#catalog/payload-filter.ts';
import type { IdAllocator } from '#db/partitions.ts';
import {
  openRecoveries,
  type OpenRecovery,
  endRecovery,
  pendingOf,
  startRecovery,
  writePage,
  type End,
  type Page,
  type Recoverable,
  versionsOf,
  countLoaded,
  findLoaded,
  findMissed,
  moveLoaded,
  startRecoveryOfLoaded,
  type Missed,
  type WebhookKey,
  type OpenRecoveryOfLoaded,
} from './recoveries-sql.ts';
import { writeRefeed } from './refeed.ts';
import { Counter, Gauge, type Registry } from '@prometheus-io/client';

// Prometheus metrics.

export function createRecoveryMetrics(registry: Registry) {
  const registers = [registry];
  const events = new Counter({
    name: 'halcyon_recovery_events_total',
    help: 'Events for which a recovery made a delivery',
    registers,
  });
  const ended = new Counter({
    name: 'halcyon_recoveries_ended_total',
    help: 'Recoveries that ended here, by how',
    labelNames: ['state'],
    registers,
  });
  const open = new Gauge({
    name: 'halcyon_recoveries_open',
    help: 'Recoveries of the shards of this process that are not ended',
    registers,
  });
  const byState = { finished: ended.labels('finished'), stopped: ended.labels('stopped') };
  for (const counter of Object.values(byState)) counter.inc(0);
  return {
    /** Counts deliveries that a recovery created. */
    made: (deliveries: number): void => events.inc(deliveries),
    ended: (state: 'finished' | 'stopped'): void => byState[state].inc(),
    /** Sets the number of unfinished recoveries of the shards of this process. */
    open: (recoveries: number): void => open.set(recoveries),
  };
}

type RecoveryMetrics = ReturnType<typeof createRecoveryMetrics>;

// Finds the events that a webhook has missed, one range of events at a time, and splits them into pages.

/** Events or resources that one statement examines. */
const RANGE_EVENTS_MAX = 10_000;

/**
 * The missed events among those after `from`, up to `to`. Only the recovery itself creates deliveries for them; an event that
 * is resent manually meanwhile may be delivered twice. Searching again for each page would cost as much as finding the range.
 */
type EventRange = { from: number; to: number; missed: Missed };

/** Returns the range that begins at the cursor of a running recovery, limited to one day so that few deliveries are read. */
async function findRange(
  sql: Sql,
  recovery: Recoverable & { afterEventId: number; untilEventId: number },
): Promise<EventRange> {
  const { afterEventId: after, untilEventId } = recovery;
  const day = dayOfId(after + 1);
  const upTo = Math.min(untilEventId, firstIdOfDay(day + 1) - 1);
  const missed = await findMissed(sql, recovery, { after, upTo, limit: RANGE_EVENTS_MAX });
  const isComplete = missed.seen < RANGE_EVENTS_MAX || missed.last === null;
  return { from: after, to: isComplete ? upTo : (missed.last ?? upTo), missed };
}

/** Bodies that are read at once, each of up to 256 KiB. */
const BODIES_MAX = 32;

/** Returns the events that pass the filter of the webhook. */
async function passing(sql: Sql, recovery: Recoverable, eventIds: readonly number[]): Promise<readonly number[]> {
  if (recovery.filter === null) return eventIds;
  const passes = compileFilter(recovery.filter);
  const passed: number[] = [];
  for (let at = 0; at < eventIds.length; at += BODIES_MAX) {
    const versions = await versionsOf(sql, recovery, eventIds.slice(at, at + BODIES_MAX));
    const found = versions.filter(
      (version) => bareKindOf(version.type, version.action) !== undefined || passes(payloadOfEvent(version)),
    );
    passed.push(...found.map(({ eventId }) => eventId));
  }
  return passed;
}

/** Limits of a count: missed events, whose bodies are read if the webhook has a filter, and events that are examined for them. */
const COUNTED_MAX = 1_000;
const COUNT_EXAMINED_MAX = 5 * RANGE_EVENTS_MAX;

/** `isMore`: there may be others. */
export type MissedCount = { count: number; isMore: boolean };

/** Counts what a recovery that begins now would send, up to 1,000 missed events among the first 50,000 of the period. */
export async function countMissed(sql: Sql, recovery: Recoverable, now: Date): Promise<MissedCount> {
  const { since, until } = recovery;
  const lastDay = dayOf(until === null || until > now ? now : until);
  const untilEventId = firstIdOfDay(lastDay + 1) - 1;
  let [count, found, examined] = [0, 0, 0];
  let afterEventId = firstIdOfDay(dayOf(since)) - 1;
  while (afterEventId < untilEventId) {
    const { to, missed } = await findRange(sql, { ...recovery, afterEventId, untilEventId });
    const eventIds = missed.ids.slice(0, COUNTED_MAX - found);
    count += (await passing(sql, recovery, eventIds)).length;
    found += eventIds.length;
    examined += missed.seen;
    afterEventId = to;
    if (found === COUNTED_MAX || examined >= COUNT_EXAMINED_MAX) return { count, isMore: true };
  }
  return { count, isMore: false };
}

/** Counts the loaded resources that a recovery would send, up to 1,000 among the first 50,000. */
export async function countLoadedMissed(
  sql: Sql,
  recovery: Omit<Parameters<typeof findLoaded>[1], 'afterResourceId'>,
): Promise<MissedCount> {
  const limits = { limit: COUNTED_MAX, examined: COUNT_EXAMINED_MAX };
  const page = await findLoaded(sql, { ...recovery, afterResourceId: '' }, limits);
  const [count, examined] = [page?.ids.length ?? 0, page?.seen ?? 0];
  return { count, isMore: count === COUNTED_MAX || examined === COUNT_EXAMINED_MAX };
}

/** Splits off the first page of a range, with at most `limit` deliveries; `rest` is undefined if nothing remains. */
function splitPage({ from, to, missed }: EventRange, limit: number): { page: Page; rest: EventRange | undefined } {
  const { ids, places, seen, failed, failedOf } = missed;
  if (ids.length <= limit) return { page: { from, to, seen, eventIds: ids, failed }, rest: undefined };
  const last = ids[limit - 1] ?? from;
  const seenOnPage = places[limit - 1] ?? 0;
  const remainingPlaces = places.slice(limit).map((place) => place - seenOnPage);
  const afterPage = failedOf.findIndex((id) => id > last);
  const failedOnPage = afterPage === -1 ? failed.length : afterPage;
  const rest = {
    ...missed,
    failed: failed.slice(failedOnPage),
    failedOf: failedOf.slice(failedOnPage),
    seen: seen - seenOnPage,
    ids: ids.slice(limit),
    places: remainingPlaces,
  };
  return {
    page: { from, to: last, seen: seenOnPage, eventIds: ids.slice(0, limit), failed: failed.slice(0, failedOnPage) },
    rest: { from: last, to, missed: rest },
  };
}

// Performs the next step of one recovery in one short transaction; docs/delivery-states.md has the states. If a process dies
// between two steps, another continues at the cursor; of two concurrent writers the cursor admits one.

type MadeDelivery = { shard: number; webhookId: number; deliveryId: number };

type StepDeps = Pick<Runtime, 'sql' | 'clock' | 'log'> & {
  metrics: Pick<RecoveryMetrics, 'made' | 'ended'>;
  allocateIds: IdAllocator;
  /** Called within the transaction with the deliveries of a page, which exist when it commits. */
  announce: (tx: Queryable, deliveries: readonly MadeDelivery[]) => Promise<void>;
  settings: RecoverySettings;
};

type RecoverySettings = {
  /**
   * Recovered deliveries are created only while fewer deliveries of the webhook are due; this limits how many a live delivery
   * waits for.
   */
  dueDeliveriesMax: number;
  /**
   * Recovered deliveries are created only while fewer are pending in total; failing deliveries are rescheduled and would
   * accumulate.
   */
  pendingDeliveriesMax: number;
  /** Minimum size of a page, because many small pages cost more than they achieve. */
  pageDeliveriesMin: number;
};

/** `moved`: the next step may follow at once. `waiting`: it waits for deliveries or transactions. */
type StepResult = 'moved' | 'waiting' | 'ended';

/** Ranges of missed events by recovery id. A range is valid while the cursor is at its beginning. */
type EventRanges = Map<number, EventRange>;

/** Another process has written the page, or the recovery has ended. */
class PageConflict extends Error {
  override readonly message = 'another process has written the page';
}

async function end(
  { sql, clock, log, metrics }: StepDeps,
  recovery: OpenRecovery,
  state: Exclude<End, 'cancelled'>,
): Promise<StepResult> {
  if (await endRecovery(sql, recovery, state, clock.now())) {
    const { id, webhookId, storeId, eventsSeen, eventsRecovered } = recovery;
    log.info(
      { recovery: id, webhook: webhookId, store: storeId, state, eventsSeen, eventsRecovered },
      'recovery ended',
    );
    metrics.ended(state);
  }
  return 'ended';
}

const isOfLoaded = (recovery: OpenRecovery): recovery is OpenRecoveryOfLoaded => recovery.loadedType !== null;

async function start({ sql, clock, log }: StepDeps, recovery: OpenRecovery): Promise<StepResult> {
  // When these have ended, all events whose publish saw the webhook disabled are visible; events of later transactions have deliveries of
  // their own, even if their ids are lower.
  if (await isAnyOpen(sql, recovery.olderTransactions)) return 'waiting';
  const begin = isOfLoaded(recovery)
    ? startRecoveryOfLoaded(sql, recovery, clock.now())
    : startRecovery(sql, recovery, clock.now());
  const events = await begin;
  const { id, webhookId, storeId, since } = recovery;
  if (events !== undefined)
    log.info({ recovery: id, webhook: webhookId, store: storeId, since, events }, 'recovery started');
  return 'moved';
}

/** Writes the deliveries of a page in a transaction. Returns false after a `PageConflict`. */
async function write(
  { sql, announce, metrics }: StepDeps,
  { shard, webhookId }: OpenRecovery,
  writeIn: (tx: Tx) => Promise<{ isMoved: boolean; deliveryIds: readonly number[] }>,
): Promise<boolean> {
  try {
    const ids = await transaction(sql, async (tx) => {
      const { isMoved, deliveryIds } = await writeIn(tx);
      if (!isMoved) throw new PageConflict();
      const made = deliveryIds.map((deliveryId) => ({ shard, webhookId, deliveryId }));
      if (made.length > 0) await announce(tx, made);
      return deliveryIds;
    });
    metrics.made(ids.length);
    return true;
  } catch (error) {
    if (error instanceof PageConflict) return false;
    throw error;
  }
}

/** Resources that are examined for each that may be sent: a webhook with a filter receives few of them. */
const EXAMINED_PER_SENT = 10;

/** Sends the next loaded resources as refeeds. The resources are locked in the order in which a publish locks them. */
async function sendLoaded(deps: StepDeps, recovery: OpenRecoveryOfLoaded, limit: number): Promise<StepResult> {
  const { shard, storeId, webhookId, loadedType: type } = recovery;
  const examined = Math.min(RANGE_EVENTS_MAX, limit * EXAMINED_PER_SENT);
  const page = await findLoaded(deps.sql, recovery, { limit, examined });
  if (page === undefined) return end(deps, recovery, 'finished');
  const now = deps.clock.now();
  // The route of a recovery requires the permission to send to the webhook.
  const sender = { app: null, isOwner: true };
  const selected = { webhooks: [webhookId], sentFor: null, sender, isOfLoaded: true, now };
  await write(deps, recovery, async (tx) => {
    const deliveryIds: number[] = [];
    if (!(await moveLoaded(tx, recovery, page, now))) return { isMoved: false, deliveryIds };
    for (const id of page.ids) {
      const key = { shard, storeId, type, id };
      const { rows } = await writeRefeed(tx, deps.allocateIds, { key, ...selected });
      deliveryIds.push(...rows.flatMap(({ deliveryId }) => deliveryId ?? []));
    }
    await countLoaded(tx, recovery, deliveryIds.length);
    return { isMoved: true, deliveryIds };
  });
  return 'moved';
}

/** Returns the number of deliveries that may be created now; 0 if the webhook has too many pending ones. */
async function capacityOf({ sql, clock, settings }: StepDeps, recovery: OpenRecovery): Promise<number> {
  const { dueDeliveriesMax, pendingDeliveriesMax, pageDeliveriesMin } = settings;
  const { total, due } = await pendingOf(sql, recovery, pendingDeliveriesMax, clock.now());
  const capacity = Math.min(dueDeliveriesMax - due, pendingDeliveriesMax - total);
  return capacity < pageDeliveriesMin ? 0 : capacity;
}

const isStarted = (recovery: OpenRecovery): recovery is OpenRecovery & { untilEventId: number } =>
  recovery.state === 'running' && recovery.untilEventId !== null;

/** Performs the next step. Throws if the database is unavailable or a page fails. */
async function runStep(deps: StepDeps, recovery: OpenRecovery, ranges: EventRanges): Promise<StepResult> {
  const { id, afterEventId } = recovery;
  const knownRange = ranges.get(id);
  ranges.delete(id);
  if (recovery.isWebhookInactive) return end(deps, recovery, 'stopped');
  if (!isStarted(recovery)) return start(deps, recovery);
  if (!isOfLoaded(recovery) && afterEventId >= recovery.untilEventId) return end(deps, recovery, 'finished');
  const capacity = await capacityOf(deps, recovery);
  const range = knownRange?.from === afterEventId ? knownRange : undefined;
  if (capacity === 0) {
    if (range !== undefined) ranges.set(id, range);
    return 'waiting';
  }
  if (isOfLoaded(recovery)) return sendLoaded(deps, recovery, capacity);
  const { page, rest } = splitPage(range ?? (await findRange(deps.sql, recovery)), capacity);
  const eventIds = await passing(deps.sql, recovery, page.eventIds);
  const passed = { ...page, eventIds };
  const isWritten = await write(deps, recovery, (tx) => writePage(tx, recovery, passed, deps.clock.now()));
  if (isWritten && rest !== undefined) ranges.set(id, rest);
  return 'moved';
}

export type RecoveriesDeps = Omit<StepDeps, 'metrics' | 'settings'> & {
  metrics: RecoveryMetrics;
  /** Shards that this process owns at the moment. */
  shards: () => readonly number[];
  /** Rises when a webhook has changed, shards were taken, or notifications may have been missed. */
  changes: () => number;
  settings: RecoverySettings & {
    /** Interval between searches while there are no recoveries, if something has changed. */
    everyMs: number;
    /** The same if nothing has changed. */
    idleEveryMs: number;
    /** Pause between two rounds while there are recoveries, which limits the load on the database. */
    pauseMs: number;
    /** Delay before a failed recovery is retried. */
    retryAfterMs: number;
  };
};

const READ_AT_ONCE = 100;
/** Ranges kept in memory, at most 160 KB each; others are searched for again in each round. */
const RANGES_MAX = 200;

export class Recoveries {
  readonly #deps: RecoveriesDeps;
  #ranges: EventRanges = new Map();
  /** Failed recoveries, with the monotonic time in ms at which each is retried. */
  #failed = new Map<number, number>();

  /** `changes` and the monotonic time before the last search, if it found no recovery. */
  #idle: { changes: number; sinceMs: number } | undefined;

  constructor(deps: RecoveriesDeps) {
    this.#deps = deps;
  }

  /** Runs a round unless the last one found nothing and nothing has changed since; returns the number of unfinished recoveries. */
  async roundIfChanged(signal?: AbortSignal): Promise<number> {
    const { clock, settings } = this.#deps;
    const [changes, sinceMs] = [this.#deps.changes(), clock.monotonicMs()];
    if (this.#idle?.changes === changes && sinceMs - this.#idle.sinceMs < settings.idleEveryMs) return 0;
    this.#idle = undefined;
    const open = await this.round(signal);
    if (open === 0) this.#idle = { changes, sinceMs };
    return open;
  }

  /** Performs one step of each unfinished recovery and returns their number. Throws if the database is unavailable. */
  async round(signal?: AbortSignal): Promise<number> {
    const { sql, metrics } = this.#deps;
    const seen = new Set<number>();
    const shards = this.#deps.shards();
    let after: WebhookKey | undefined = { shard: -1, webhookId: 0 };
    while (shards.length > 0 && after !== undefined) {
      const open: OpenRecovery[] = await openRecoveries(sql, shards, after, READ_AT_ONCE);
      for (const recovery of open) {
        if (signal?.aborted) return seen.size;
        if (await this.#runStep(recovery, signal)) seen.add(recovery.id);
      }
      after = open.length < READ_AT_ONCE ? undefined : open.at(-1);
    }
    this.#retainOnly(seen);
    metrics.open(seen.size);
    return seen.size;
  }

  /** Performs one step; returns false if the recovery has ended. */
  async #runStep(recovery: OpenRecovery, signal?: AbortSignal): Promise<boolean> {
    const { clock, log, settings } = this.#deps;
    const { id, webhookId, storeId } = recovery;
    const nowMs = clock.monotonicMs();
    if (nowMs < (this.#failed.get(id) ?? nowMs)) return true;
    try {
      const result = await runStep(this.#deps, recovery, this.#ranges);
      this.#failed.delete(id);
      return result !== 'ended';
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (signal?.aborted) return true;
      const fields = { err: error, recovery: id, webhook: webhookId, store: storeId };
      if (!this.#failed.has(id)) log.error(fields, 'recovery step failed; retrying');
      this.#failed.set(id, nowMs + settings.retryAfterMs);
      return true;
    }
  }

  #retainOnly(seen: ReadonlySet<number>): void {
    for (const id of this.#failed.keys()) if (!seen.has(id)) this.#failed.delete(id);
    for (const id of this.#ranges.keys()) if (!seen.has(id) || this.#ranges.size > RANGES_MAX) this.#ranges.delete(id);
  }
}

/** A statement that still runs then ends with the process; the next process repeats it. */
const STOP_MS = 2_000;

/** Runs rounds until it is stopped. `stop` waits at most `STOP_MS` for the running statement. */
export function startRecoveries(deps: RecoveriesDeps & { pace: Pace }): Running {
  const { everyMs, pauseMs } = deps.settings;
  const recoveries = new Recoveries(deps);
  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const open = await recoveries.roundIfChanged(signal).catch((error: unknown) => {
        if (signal.aborted) return 0;
        deps.log.warn({ reason: String(error) }, 'recovery round interrupted; the next round continues');
        return 0;
      });
      if (open > 0) await delay(pauseMs, undefined, { signal }).catch(() => {});
      else await deps.pace.pause(everyMs, signal);
    }
  };
  return within(STOP_MS, untilStopped(run));
}
