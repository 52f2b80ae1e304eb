/** What a webhook has missed, found a stretch of events at a time and handed out a page at a time. */
import type { Sql } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';
import type { OpenRecovery, Page } from './recovery-sql.ts';
import { findMissed, type Missed } from './missed-sql.ts';

/** So many events are looked at in a statement. */
const STRETCH_EVENTS_MAX = 10_000;

/**
 * What is known to be missing among the events after `from`, up to `to`. Nobody but the recovery itself makes any of it less, except
 * who sends one again by hand: it may come twice. To look anew for each page would cost as much as finding the stretch did.
 */
export type Stretch = { from: number; to: number; missed: Missed };

/** The stretch of a running recovery that begins at its cursor: of one day, so that few deliveries have to be looked at. */
export const nextStretch = async (sql: Sql, recovery: OpenRecovery & { untilEventId: number }): Promise<Stretch> => {
  const { afterEventId: after, untilEventId } = recovery;
  const day = dayOfId(after + 1);
  const upTo = Math.min(untilEventId, firstIdOfDay(day + 1) - 1);
  const missed = await findMissed(sql, recovery, { after, upTo, limit: STRETCH_EVENTS_MAX });
  const isWhole = missed.seen < STRETCH_EVENTS_MAX || missed.last === null;
  return { from: after, to: isWhole ? upTo : (missed.last ?? upTo), missed };
};

/** The first page of a stretch, with at most `limit` deliveries, and what is left of the stretch after it: undefined where nothing is. */
export const cut = ({ from, to, missed }: Stretch, limit: number): { page: Page; rest: Stretch | undefined } => {
  const { ids, places, seen } = missed;
  if (ids.length <= limit) return { page: { from, to, seen, eventIds: ids }, rest: undefined };
  const end = ids[limit - 1] ?? from;
  const seenHere = places[limit - 1] ?? 0;
  const left = places.slice(limit).map((place) => place - seenHere);
  const rest = { ...missed, seen: seen - seenHere, ids: ids.slice(limit), places: left };
  return {
    page: { from, to: end, seen: seenHere, eventIds: ids.slice(0, limit) },
    rest: { from: end, to, missed: rest },
  };
};
