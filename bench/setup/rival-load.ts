/** What is put into the rivals' queues: a job an event, with all that the worker needs beside the webhook's settings. */
import type { Load } from './load.ts';

/** `body` is the text of the representation, as Halcyon stores it too. */
export type Job = { endpoint: number; n: number; body: string };

export type RivalLoad = Pick<Load, 'requests' | 'arrayOf' | 'concurrent' | 'from'>;

/** The two processes of a queue: one puts jobs in, and the one that `works` works them off. */
export type RivalProcess<Given> = {
  /** Returns its settings. */
  start: (given: Given & { urls: string[]; works: boolean }) => Promise<string>;
  publish: (load: RivalLoad) => Promise<void>;
  /** Returns how many jobs are not done. */
  left: (_: null) => Promise<number>;
};

/** Clients that put in one array after the other; every array is for one endpoint, and the endpoints take turns. */
export async function putIn(
  { requests, arrayOf, concurrent, from }: RivalLoad,
  bodyOf: (endpoint: number) => Buffer,
  add: (jobs: Job[]) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const client = async () => {
    while (next < requests) {
      const endpoint = next++;
      const body = bodyOf(endpoint).toString();
      await add(Array.from({ length: arrayOf }, (_, at) => ({ endpoint, n: from + endpoint * arrayOf + at, body })));
    }
  };
  await Promise.all(Array.from({ length: concurrent }, client));
}
