/** Who takes part when deliveries are measured: PostgreSQL, a receiver with many ports, stores that send to them. */
import { randomBytes } from 'node:crypto';
import { until } from '../../test/setup/until.ts';
import { startChild, type Child } from './child.ts';
import { startDatabase, type Database } from './database.ts';
import type { EngineProcess } from './engine-process.ts';
import type { Load } from './load.ts';
import type { ReceiverProcess } from './receiver-process.ts';
import type { Defer } from './run.ts';
import { seedStores } from './seed.ts';

export type Scene = {
  database: Database;
  receiver: Child<ReceiverProcess>;
  urls: string[];
  storeIds: number[];
  startEngine: (
    options: { delivers: boolean; counts?: boolean },
    execArgv?: readonly string[],
  ) => Promise<{ engine: Child<EngineProcess>; settings: string }>;
};

/** One store an endpoint, each with one webhook. */
export const startScene = async (
  defer: Defer,
  { endpoints, observed = false }: { endpoints: number; observed?: boolean },
): Promise<Scene> => {
  const database = await startDatabase(defer, observed);
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./receiver-process.ts'));
  const urls = await receiver.ask('listen', endpoints);
  const secretKey = randomBytes(32);
  const storeIds = await seedStores(database.sql, urls, secretKey);
  return {
    database,
    receiver,
    urls,
    storeIds,
    startEngine: async ({ delivers, counts = false }, execArgv) => {
      const file = import.meta.resolve('./engine-process.ts');
      const engine = await startChild<EngineProcess>(defer, file, execArgv);
      const settings = await engine.ask('start', { address: database.address, secretKey, delivers, counts });
      return { engine, settings };
    },
  };
};

const RECORD_PATIENCE_MS = 30_000;

/** `failed`: attempts that were not delivered and had to be repeated, a minute later at the earliest. */
export type Recorded = { ms: number; publishMs: number; connections: number; failed: number };

/** From the first publish until every delivery is recorded. Throws where one is missing or not successful. */
export const publishAndRecord = async (
  { database: { sql }, receiver }: Scene,
  publisher: Child<EngineProcess>,
  load: Load,
): Promise<Recorded> => {
  const events = load.requests * load.arrayOf;
  const count = async () => {
    const [row] = await sql<{ successful: number; failed: number }[]>`
      select (select count(*) from delivery_done where state = 'successful') as successful,
        (select count(*) from attempt where outcome <> 'delivered') as failed`;
    return row ?? { successful: 0, failed: 0 };
  };
  const before = await count();
  const startedAt = performance.now();
  const [connections, publishMs] = await Promise.all([
    receiver.ask('until', events),
    publisher.ask('publish', load).then(() => performance.now() - startedAt),
  ]);
  await until(
    () => sql`select from delivery limit 1`,
    ({ length }) => length === 0,
    RECORD_PATIENCE_MS,
  );
  const ms = performance.now() - startedAt;
  const after = await count();
  const recorded = after.successful - before.successful;
  if (recorded !== events) throw new Error(`${events} events made ${recorded} successful deliveries`);
  return { ms, publishMs, connections, failed: after.failed - before.failed };
};
