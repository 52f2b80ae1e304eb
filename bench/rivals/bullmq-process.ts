/** The rival BullMQ: one process puts jobs in, another works them off. */
import { Queue, Worker } from 'bullmq';
import { AT_ONCE, openSender, type BareSender } from '../setup/bare-sender.ts';
import { answer } from '../setup/child.ts';
import { putIn, type Job, type RivalProcess } from '../setup/rival-load.ts';

const NAME = 'deliveries';

let sender: BareSender | undefined;
let queue: Queue<Job> | undefined;
let worker: Worker<Job> | undefined;

const handlers: RivalProcess<{ socket: string }> = {
  start: async (given) => {
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
  publish: (load) =>
    putIn(
      load,
      (endpoint) => sender?.bodyOf(endpoint) ?? Buffer.alloc(0),
      async (jobs) =>
        queue?.addBulk(jobs.map((data) => ({ name: 'delivery', data, opts: { removeOnComplete: true } }))),
    ),
  left: async () => (await queue?.getJobCountByTypes('waiting', 'active', 'failed')) ?? 0,
};

answer(handlers, async () => {
  await worker?.close();
  await queue?.close();
  await sender?.stop();
});
