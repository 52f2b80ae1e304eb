/** Bodies that are read with the rows of a fetch: they save statements, and no more. */
import { isUnavailable } from '#db/unavailable.ts';
import type { Log } from '#core/log.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Pending } from './loaded-deliveries.ts';

/** The events of the first delivery of each webhook, then those of the second, and so on: each has something to begin with. */
export const eventsRoundRobin = (rows: readonly Pending[]): number[] => {
  const turns: number[][] = [];
  const taken = new Map<number, number>();
  for (const { webhookId, eventId } of rows) {
    const turn = taken.get(webhookId) ?? 0;
    taken.set(webhookId, turn + 1);
    (turns[turn] ??= []).push(eventId);
  }
  return turns.flat();
};

/** What cannot be read here is tried one by one when it is sent, and holds up its own delivery alone. */
export const readAhead = async (
  { bodies, log }: { bodies: Bodies; log: Log },
  shard: number,
  due: readonly Pending[],
): Promise<void> => {
  try {
    await bodies.load(shard, eventsRoundRobin(due));
  } catch (error) {
    if (isUnavailable(error)) throw error;
    log.warn({ shard, reason: String(error) }, 'events could not be read together; each is read when it is sent');
  }
};
