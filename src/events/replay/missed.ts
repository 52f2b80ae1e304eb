/** Finds the events that a webhook has missed, one range of events at a time, and splits them into pages. */
import type { Sql } from '#db/pool.ts';
import { dayOfId, firstIdOfDay } from '#core/ids.ts';
import { compileFilter, payloadOfEvent } from '#catalog/payload-filter.ts';
import { versionsOf, type OpenRecovery, type Page } from './recovery-sql.ts';
import { findMissed, type Missed } from './missed-sql.ts';

/** Events that one statement examines. */
const RANGE_EVENTS_MAX = 10_000;

/**
 * The missed events among those after `from`, up to `to`. Only the recovery itself creates deliveries for them; an event that
 * is resent manually meanwhile may be delivered twice. Searching again for each page would cost as much as finding the range.
 */
export type EventRange = { from: number; to: number; missed: Missed };

/** Returns the range that begins at the cursor of a running recovery, limited to one day so that few deliveries are read. */
export async function findRange(sql: Sql, recovery: OpenRecovery & { untilEventId: number }): Promise<EventRange> {
  const { afterEventId: after, untilEventId } = recovery;
  const day = dayOfId(after + 1);
  const upTo = Math.min(untilEventId, firstIdOfDay(day + 1) - 1);
  const missed = await findMissed(sql, recovery, { after, upTo, limit: RANGE_EVENTS_MAX });
  const isComplete = missed.seen < RANGE_EVENTS_MAX || missed.last === null;
  return { from: after, to: isComplete ? upTo : (missed.last ?? upTo), missed };
}

/** Bodies that are read at once, each of up to 256 KiB. */
const BODIES_MAX = 32;

/** Returns the page with the events that pass the filter of the webhook. */
export async function passing(sql: Sql, recovery: OpenRecovery, page: Page): Promise<Page> {
  if (recovery.filter === null) return page;
  const passes = compileFilter(recovery.filter);
  const eventIds: number[] = [];
  for (let at = 0; at < page.eventIds.length; at += BODIES_MAX) {
    const versions = await versionsOf(sql, recovery, page.eventIds.slice(at, at + BODIES_MAX));
    eventIds.push(...versions.filter((version) => passes(payloadOfEvent(version))).map(({ eventId }) => eventId));
  }
  return { ...page, eventIds };
}

/** Splits off the first page of a range, with at most `limit` deliveries; `rest` is undefined if nothing remains. */
export function splitPage(
  { from, to, missed }: EventRange,
  limit: number,
): { page: Page; rest: EventRange | undefined } {
  const { ids, places, seen } = missed;
  if (ids.length <= limit) return { page: { from, to, seen, eventIds: ids }, rest: undefined };
  const end = ids[limit - 1] ?? from;
  const seenOnPage = places[limit - 1] ?? 0;
  const remainingPlaces = places.slice(limit).map((place) => place - seenOnPage);
  const rest = { ...missed, seen: seen - seenOnPage, ids: ids.slice(limit), places: remainingPlaces };
  return {
    page: { from, to: end, seen: seenOnPage, eventIds: ids.slice(0, limit) },
    rest: { from: end, to, missed: rest },
  };
}
