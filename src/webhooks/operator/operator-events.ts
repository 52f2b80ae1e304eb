/**
 * The events for the operator. What happens in any database is noted in its transaction, and each process publishes the notes in the platform
 * store, and once an hour how many events did not arrive at each webhook. In the database of the platform store, an event is published in
 * the transaction that deletes its note. From another one it has an idempotency key, with which a repetition within a day after a crash
 * publishes nothing. Without a platform store nothing is noted.
 */
import { OPERATOR_EVENT } from '#catalog/catalog.ts';
import { shardOf } from '#core/ids.ts';
import { untilStopped, type Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { transaction, type Sql, type Tx, type Queryable } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { InternalEvent, InternalEventWriter } from '#events/publish/internal-event.ts';
import { findKeys } from '#events/publish/publish-sql.ts';
import { formatDate } from '#hypermedia/date.ts';
import { hasStore } from '../webhook-sql.ts';
import {
  countNotArrived,
  deletePublished,
  hasWaiting,
  lockWaiting,
  type WaitingEvent,
  insertHappened,
  type Happened,
} from './operator-sql.ts';
import type { Change } from '#changelog/changelog.ts';
import { listInstalledByMembers, type MemberGrant } from '../app-access/app-access-sql.ts';

/** A database with stores. `id`: its number in the map of shards. */
type Database = { id: number; sql: Sql; writeInternalEvents: InternalEventWriter };

type Deps = Pick<Runtime, 'clock' | 'pace' | 'log'> & {
  platformStore: number;
  /** Returns all databases of this process. */
  databases: () => readonly Database[];
  /** Returns the database of the platform store. */
  target: () => Database;
};

const POLL_MS = 1_000;
const BATCH = 200;
const MISSING = 'there is no store with the id in PLATFORM_STORE; the events for the operator wait';
const HOUR_MS = 3_600_000;
/** The end of a delivery is committed this long after its date at most. */
const COMMIT_MS = 60_000;

/** Returns a key that no client can send, because it is not ASCII. */
const keyOf = (source: Database, { id }: WaitingEvent): string => `§ ${source.id} ${id}`;

function eventOf(storeId: number, source: Database, waiting: WaitingEvent): InternalEvent {
  const { action, body, dateCreated } = waiting;
  const { date_from: from } = body;
  return {
    storeId,
    type: OPERATOR_EVENT,
    action,
    key: keyOf(source, waiting),
    resource: ({ id, timeZone }) => ({
      id,
      store_id: body.store_id,
      webhook_id: body.webhook_id ?? null,
      client_id: body.client_id ?? null,
      reason: body.reason ?? null,
      events_total: body.events_total ?? null,
      date_from: from == null ? null : formatDate(new Date(from), timeZone),
      date_created: formatDate(dateCreated, timeZone),
    }),
  };
}

/** Logs an error if the platform store does not exist. Never rejects. */
async function check({ log, platformStore: storeId, target }: Deps): Promise<void> {
  try {
    if (!(await hasStore(target().sql, { shard: shardOf(storeId), storeId }))) log.error({ store: storeId }, MISSING);
  } catch (error) {
    log.warn({ err: error }, 'the platform store could not be looked up');
  }
}

/** Publishes a batch of the events of a database, and returns their number. */
async function publish(deps: Deps, source: Database): Promise<number> {
  if (!(await hasWaiting(source.sql))) return 0;
  const target = deps.target();
  return transaction(source.sql, async (tx) => {
    const waiting = await lockWaiting(tx, BATCH);
    if (waiting.length === 0) return 0;
    const write = (to: Tx): Promise<void> => writeFresh(deps, to, source, waiting);
    await (source.id === target.id ? write(tx) : transaction(target.sql, write));
    await deletePublished(
      tx,
      waiting.map(({ id }) => id),
    );
    return waiting.length;
  });
}

/** Writes those events in the platform store that were not written before. Throws if the store does not exist. */
async function writeFresh(
  { platformStore: storeId, clock, target }: Deps,
  to: Tx,
  source: Database,
  waiting: readonly WaitingEvent[],
): Promise<void> {
  if (!(await hasStore(to, { shard: shardOf(storeId), storeId }))) throw new Error(MISSING);
  const now = clock.now();
  const keys = waiting.map((one) => ({ storeId, key: keyOf(source, one) }));
  const known = new Set((await findKeys(to, keys, now)).map(({ key }) => key));
  const fresh = waiting.filter((one) => !known.has(keyOf(source, one)));
  await target().writeInternalEvents(
    to,
    fresh.map((one) => eventOf(storeId, source, one)),
    now,
  );
}

/** Starts to publish the events for the operator of all databases. */
export function startOperatorEvents(deps: Deps): Running {
  const { platformStore, databases, clock, pace, log } = deps;
  const failing = new Set<number>();
  /** The end of the hour that was counted last, by database. */
  const counted = new Map<number, number>();
  const count = async ({ id, sql }: Database): Promise<void> => {
    const now = clock.now();
    const untilMs = Math.floor((now.getTime() - COMMIT_MS) / HOUR_MS) * HOUR_MS;
    if ((counted.get(id) ?? 0) >= untilMs) return;
    // A count that fails is repeated by that of the next hour: it may be the count that is too much for the database.
    counted.set(id, untilMs);
    await transaction(sql, (tx) => countNotArrived(tx, new Date(untilMs), now));
  };
  /** Counts and publishes what is due in a database. Never rejects. */
  const serve = async (source: Database, signal: AbortSignal): Promise<void> => {
    try {
      await count(source);
      while (!signal.aborted && (await publish(deps, source)) === BATCH);
      failing.delete(source.id);
    } catch (error) {
      if (isUnavailable(error)) return;
      if (!failing.has(source.id))
        log.error({ err: error, database: source.id, store: platformStore }, 'events for the operator wait; retrying');
      failing.add(source.id);
    }
  };
  return untilStopped(async (signal) => {
    const round = () => Promise.all(databases().map((database) => serve(database, signal)));
    await check(deps);
    await round();
    await pace.repeat(POLL_MS, round, signal);
  });
}

/** Returns what a change of a store means. */
function ofStore({ resource, action, storeId, before, after }: Change): Happened[] {
  if (resource !== 'store') return [];
  if (action === 'created') return [{ action: 'store_created', body: { store_id: storeId } }];
  const reason = after?.['suspended_reason'];
  const isSuspended = typeof reason === 'string' && before?.['suspended_reason'] === null;
  return isSuspended ? [{ action: 'store_suspended', body: { store_id: storeId, reason } }] : [];
}

/** Returns the grants that changes give or revoke, once for each app and store. */
function grantsIn(changes: readonly Change[]): (MemberGrant & { isGiven: boolean })[] {
  const grants = changes.flatMap(({ resource, resourceId, action, storeId, before, after }) => {
    const clientId = (after ?? before)?.['client_id'];
    if (resource !== 'grant' || typeof clientId !== 'string') return [];
    return [{ grantId: Number(resourceId), clientId, storeId, isGiven: action === 'given' }];
  });
  return [...new Map(grants.map((grant) => [`${grant.clientId} ${grant.storeId}`, grant])).values()];
}

/**
 * Returns the first and the last access of apps among the grants: no other one is in effect. Two members who give an app its first access
 * at the same moment make two events.
 */
async function ofApps(home: Queryable, grants: readonly (MemberGrant & { isGiven: boolean })[]): Promise<Happened[]> {
  if (grants.length === 0) return [];
  const installed = await listInstalledByMembers(home, grants);
  return grants.flatMap(({ clientId, storeId, isGiven }, at): Happened[] => {
    if (installed[at] === true) return [];
    const action = isGiven ? 'app_installed' : 'app_uninstalled';
    return [{ action, body: { store_id: storeId, client_id: clientId } }];
  });
}

async function note(tx: Queryable, happened: readonly Happened[], now: Date): Promise<void> {
  if (happened.length > 0) await insertHappened(tx, happened, now);
}

export function createOperatorOutbox() {
  return {
    /** Notes what the changes mean for the operator: a new store, a suspension, the first or the last access of an app to a store. */
    noteChanges: async (home: Queryable, changes: readonly Change[], now: Date): Promise<void> =>
      note(home, [...changes.flatMap(ofStore), ...(await ofApps(home, grantsIn(changes)))], now),
    /** Notes that a grant for a store has expired, which is no change in the changelog, if it was the last one of its app. */
    noteExpired: async (home: Queryable, grant: MemberGrant, now: Date): Promise<void> =>
      note(home, await ofApps(home, [{ ...grant, isGiven: false }]), now),
    /** Notes that Halcyon has disabled a webhook. */
    noteDisabled: (tx: Queryable, of: { storeId: number; id: number; why: string }, now: Date): Promise<void> => {
      const body = { store_id: of.storeId, webhook_id: of.id, reason: of.why };
      return note(tx, [{ action: 'webhook_disabled', body }], now);
    },
  };
}
export type OperatorOutbox = ReturnType<typeof createOperatorOutbox>;
