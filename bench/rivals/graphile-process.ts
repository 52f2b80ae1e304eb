/** The rival graphile-worker, over the same PostgreSQL: one process puts jobs in, another works them off. */
import { Logger, makeWorkerUtils, run, type Runner, type WorkerUtils } from 'graphile-worker';
import { AT_ONCE, openSender, type BareSender } from '../setup/bare-sender.ts';
import { answer } from '../setup/child.ts';
import { putIn, type Job, type RivalProcess } from '../setup/rival-load.ts';

const TASK = 'deliver';
/** As its page on performance sets it, like the delay of 0 below. */
const LOCAL_QUEUE = 500;
const CONNECTIONS = 10;

const silent = new Logger(() => () => {});
let sender: BareSender | undefined;
let utils: WorkerUtils | undefined;
let runner: Runner | undefined;

const handlers: RivalProcess<{ connectionString: string }> = {
  start: async (given) => {
    const { connectionString } = given;
    sender = openSender(given.urls);
    const { send } = sender;
    const worker = { connectionString, maxPoolSize: CONNECTIONS, preparedStatements: true, logger: silent };
    utils = await makeWorkerUtils({ preset: { worker } });
    await utils.migrate();
    if (!given.works) return `addJobs, connections=${CONNECTIONS}`;
    runner = await run({
      preset: {
        worker: {
          ...worker,
          concurrentJobs: AT_ONCE,
          localQueue: { size: LOCAL_QUEUE },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
      taskList: {
        [TASK]: (payload) => {
          const { endpoint, n, body } = payload as Job;
          return send(endpoint, n, Buffer.from(body));
        },
      },
    });
    return `concurrentJobs=${AT_ONCE} localQueue=${LOCAL_QUEUE} completeJobBatchDelay=0 connections=${CONNECTIONS}, prepared`;
  },
  publish: (load) =>
    putIn(
      load,
      (endpoint) => sender?.bodyOf(endpoint) ?? Buffer.alloc(0),
      async (jobs) => utils?.addJobs(jobs.map((payload) => ({ identifier: TASK, payload }))),
    ),
  left: async () => {
    const rows = await utils?.withPgClient(async (client) => {
      const { rows: counted } = await client.query<{ left: number }>(
        'select count(*)::int as left from graphile_worker.jobs',
      );
      return counted;
    });
    return rows?.[0]?.left ?? 0;
  },
};

answer(handlers, async () => {
  await runner?.stop();
  await utils?.release();
  await sender?.stop();
});
