/**
 * Open-loop load: events are published when they are due, however long earlier ones take, as a shop's customers do not wait
 * for each other. Each has its due time, so that the delay of a late publisher counts.
 */
import type { Publisher } from '#events/publish/publish.ts';
import { monotonicMs } from './monotonic.ts';
import { eventMaker } from './seed.ts';

export type Pace = {
  /** They take turns, event by event. */
  storeIds: readonly number[];
  perSecond: number;
  seconds: number;
  /** The number of the first event. */
  from: number;
};

/** Published in all; `unfinished`: how many of them were not committed when the last one was due. */
export type Paced = { published: number; unfinished: number };

/** A timer cannot come more often; what is due in between goes together, a request each. */
const TICK_MS = 1;

export async function publishAtPace(publisher: Publisher, pace: Pace): Promise<Paced> {
  const { storeIds, perSecond, seconds, from } = pace;
  const stores = storeIds.map((storeId) => ({ storeId, make: eventMaker(storeId) }));
  const total = perSecond * seconds;
  const startedMs = monotonicMs();
  const requests: Promise<unknown>[] = [];
  let open = 0;
  const publishDue = (): void => {
    for (let due = Math.ceil(((monotonicMs() - startedMs) / 1_000) * perSecond); requests.length < due;) {
      const n = requests.length;
      if (n === total) return;
      const store = stores[n % stores.length];
      if (store === undefined) throw new Error('No stores');
      const at = startedMs + (n / perSecond) * 1_000;
      const event = store.make(from + n);
      const body = `{"at":${at},${event.body.slice(1)}`;
      open += 1;
      const request = publisher({ storeId: store.storeId, events: [{ ...event, body }], now: new Date() });
      requests.push(request.finally(() => (open -= 1)));
    }
  };
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      publishDue();
      if (requests.length < total) return;
      clearInterval(timer);
      resolve();
    }, TICK_MS);
  });
  const unfinished = open;
  await Promise.all(requests);
  return { published: requests.length, unfinished };
}
