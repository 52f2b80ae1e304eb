/** Loads the bodies of fetched deliveries in one statement, as an optimization. */
import { isUnavailable } from '#db/unavailable.ts';
import type { Log } from '#core/log.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Pending } from '../policy/entry.ts';

/**
 * Returns the event ids round robin: the first delivery of each webhook, then the second, and so on, so that each
 * webhook can begin.
 */
export function eventsRoundRobin(rows: readonly Pending[]): number[] {
  const rounds: number[][] = [];
  const taken = new Map<number, number>();
  for (const { webhookId, eventId } of rows) {
    const round = taken.get(webhookId) ?? 0;
    taken.set(webhookId, round + 1);
    (rounds[round] ??= []).push(eventId);
  }
  return rounds.flat();
}

/** Loads the bodies. After an error each is loaded when it is sent, so that it delays only its own delivery. */
export async function readAhead({ bodies, log }: { bodies: Bodies; log: Log }, due: readonly Pending[]): Promise<void> {
  try {
    await bodies.load(eventsRoundRobin(due));
  } catch (error) {
    if (isUnavailable(error)) throw error;
    log.warn({ reason: String(error) }, 'events could not be loaded together; loading each when it is sent');
  }
}
