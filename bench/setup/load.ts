/** Clients that publish one request after the other until all are through. */
import type { Publisher } from '#events/publish/publish.ts';
import { eventMaker } from './seed.ts';

export type Load = {
  /** They take turns, request by request. */
  storeIds: readonly number[];
  /** Requests in all, each with `arrayOf` events for one store. */
  requests: number;
  arrayOf: number;
  /** Requests under way at once: that many clients. */
  concurrent: number;
  /** The number of the first event; each round takes others, so that each event is of a resource of its own. */
  from: number;
};

/** Answers how long each request took, in milliseconds. */
export async function runLoad(publisherFor: (client: number) => Publisher, load: Load): Promise<number[]> {
  const { storeIds, requests, arrayOf, concurrent, from } = load;
  const stores = storeIds.map((storeId) => ({ storeId, make: eventMaker(storeId) }));
  const latencies: number[] = [];
  let next = 0;
  const client = async (_: unknown, index: number) => {
    const publisher = publisherFor(index);
    while (next < requests) {
      const request = next++;
      const store = stores[request % stores.length];
      if (store === undefined) throw new Error('No stores');
      const events = Array.from({ length: arrayOf }, (__, at) => store.make(from + request * arrayOf + at));
      const startedAt = performance.now();
      await publisher({ storeId: store.storeId, events, now: new Date() });
      latencies.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: concurrent }, client));
  return latencies;
}
