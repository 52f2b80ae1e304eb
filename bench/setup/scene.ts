/** Who takes part when deliveries are measured: PostgreSQL, a receiver with many ports, stores that send to them. */
import { randomBytes } from 'node:crypto';
import type { KeyPair } from '../../test/setup/authority.ts';
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
  /** What the keys of webhooks are sealed with. */
  secretKey: Buffer;
  startEngine: (
    options: { delivers: boolean; counts?: boolean },
    execArgv?: readonly string[],
  ) => Promise<{ engine: Child<EngineProcess>; settings: string }>;
};

/** One store an endpoint, each with one webhook; endpoints speak TLS where there is a key. */
export async function startScene(
  defer: Defer,
  { endpoints, observed = false, pair }: { endpoints: number; observed?: boolean; pair?: KeyPair },
): Promise<Scene> {
  const database = await startDatabase(defer, observed);
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./receiver-process.ts'));
  const urls = await receiver.ask('listen', { ports: endpoints, pair });
  const secretKey = randomBytes(32);
  const storeIds = await seedStores(database.sql, urls, secretKey);
  return {
    database,
    receiver,
    urls,
    storeIds,
    secretKey,
    startEngine: async ({ delivers, counts = false }, execArgv) => {
      const file = import.meta.resolve('./engine-process.ts');
      const engine = await startChild<EngineProcess>(defer, file, execArgv);
      const settings = await engine.ask('start', { address: database.address, secretKey, delivers, counts });
      return { engine, settings };
    },
  };
}

const RECORD_PATIENCE_MS = 120_000;

/**
 * Resolves when none of the scene's own webhooks has anything pending; what else is in the table does not count. The condition on
 * `due_at` selects the index of lanes: without it each poll took 17 ms of PostgreSQL's time beside two million other deliveries.
 */
export async function untilRecorded({ database: { sql }, storeIds }: Scene): Promise<void> {
  const webhooks = await sql<{ shard: number; id: number }[]>`
    select shard, id from webhook where store_id = any (${storeIds})`;
  await until(
    () => sql`
      select from unnest(${webhooks.map(({ shard }) => shard)}::smallint[], ${webhooks.map(({ id }) => id)}::bigint[])
        as w (shard, id)
      where exists (
        select from delivery d where d.shard = w.shard and d.webhook_id = w.id and d.due_at > '-infinity'
      )
      limit 1`,
    ({ length }) => length === 0,
    RECORD_PATIENCE_MS,
  );
}

export type Done = { ms: number; publishMs: number; connections: number };

/** From the first publish until every delivery is received and written down. */
export async function publishAll(scene: Scene, publisher: Child<EngineProcess>, load: Load): Promise<Done> {
  const startedAt = performance.now();
  const [connections, publishMs] = await Promise.all([
    scene.receiver.ask('until', load.requests * load.arrayOf),
    publisher.ask('publish', load).then(() => performance.now() - startedAt),
  ]);
  await untilRecorded(scene);
  return { ms: performance.now() - startedAt, publishMs, connections };
}

/** `failed`: attempts that were not delivered and had to be repeated, a minute later at the earliest. */
export type Recorded = Done & { failed: number };

/** The same; throws where a delivery is missing or not successful. */
export async function publishAndRecord(scene: Scene, publisher: Child<EngineProcess>, load: Load): Promise<Recorded> {
  const { sql } = scene.database;
  const events = load.requests * load.arrayOf;
  const count = async () => {
    const [row] = await sql<{ successful: number; failed: number }[]>`
      select (select count(*) from delivery_done where state = 'successful') as successful,
        (select count(*) from attempt_log where outcome <> 'delivered') as failed`;
    return row ?? { successful: 0, failed: 0 };
  };
  const before = await count();
  const done = await publishAll(scene, publisher, load);
  const after = await count();
  const recorded = after.successful - before.successful;
  if (recorded !== events) throw new Error(`${events} events made ${recorded} successful deliveries`);
  return { ...done, failed: after.failed - before.failed };
}
