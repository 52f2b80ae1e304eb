/** The rival BullMQ: one process puts jobs in, another works them off. */
import { Queue, Worker } from 'bullmq';
import { AT_ONCE, openSender, type BareSender } from './bare-sender.ts';
import { answer } from './child.ts';
import { putIn, type Job, type RivalLoad } from './rival-load.ts';

const NAME = 'deliveries';

let sender: BareSender | undefined;
let queue: Queue<Job> | undefined;
let worker: Worker<Job> | undefined;

const handlers = {
  start: async (given: { socket: string; urls: string[]; works: boolean }): Promise<string> => {
    const connection = { path: given.socket, maxRetriesPerRequest: null };
    sender = openSender(given.urls);
    const { send } = sender;
    queue = new Queue(NAME, { connection });
    await queue.waitUntilReady();
    if (!given.works) return 'addBulk';
    worker = new Worker<Job>(NAME, ({ data }) => send(data.endpoint, data.n, Buffer.from(data.body)), {
      connection,
      concurrency: AT_ONCE,
      removeOnComplete: { count: 0 },
    });
    await worker.waitUntilReady();
    return `concurrency=${AT_ONCE} removeOnComplete`;
  },
  publish: (load: RivalLoad): Promise<void> =>
    putIn(
      load,
      (endpoint) => sender?.bodyOf(endpoint) ?? Buffer.alloc(0),
      async (jobs) =>
        queue?.addBulk(jobs.map((data) => ({ name: 'delivery', data, opts: { removeOnComplete: true } }))),
    ),
  /** How many jobs are not done. */
  left: async (_: null): Promise<number> => (await queue?.getJobCountByTypes('waiting', 'active', 'failed')) ?? 0,
};

export type BullmqProcess = typeof handlers;
answer(handlers, async () => {
  await worker?.close();
  await queue?.close();
  await sender?.stop();
});
