/** Halcyon without its API in a process of its own: it publishes, or delivers, or both. Settings are those of config.ts. */
import { readdir } from 'node:fs/promises';
import { Registry } from '@prometheus-io/client';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { announceWork } from '#delivery/announce.ts';
import { createIdAllocator } from '#db/partitions.ts';
import { createRecoveryMetrics, startRecoveries } from '#events/replay/recoveries.ts';
import { createLog } from '#core/log.ts';
import { startEngine, type Engine } from '../../test/setup/engine.ts';
import { readConfig } from '../../src/config/config.ts';
import { answer } from './child.ts';
import { runLoad, type Load } from './load.ts';
import { publishAtPace, type Pace, type Paced } from './pace.ts';
import { RELATION_PREFIX } from './seed.ts';
import { kindOf, type StatementCounts } from './statement-kinds.ts';
import { NEVER_QUIET } from '../../test/setup/clock.ts';

const ends: (() => Promise<void>)[] = [];
const counts: StatementCounts = {};
let engine: Engine | undefined;

function count(statement: string): void {
  const kind = kindOf(statement);
  counts[kind] = (counts[kind] ?? 0) + 1;
}

function started(): Engine {
  if (engine === undefined) throw new Error('Not started');
  return engine;
}

const handlers = {
  start: async (given: {
    address: DatabaseAddress;
    secretKey: Uint8Array;
    delivers: boolean;
    counts: boolean;
  }): Promise<string> => {
    const { database, delivery, naming, recoveries: yielding } = readConfig({}, '/');
    const { connections } = database;
    const sql = openPool(given.address, {
      connections,
      applicationName: 'bench-engine',
      ...(given.counts && { onQuery: count }),
    });
    ends.push(() => sql.end({ timeout: 1 }));
    engine = await startEngine({
      sql,
      ends: { after: (end) => void ends.push(end) },
      secretKey: Buffer.from(given.secretKey),
    });
    if (given.delivers) {
      const { slots, slotsPerLane, laneQueue } = delivery;
      const settings = { ...delivery, headerPrefix: naming.webhookHeaderPrefix, relationPrefix: RELATION_PREFIX };
      const worker = await engine.startWorker(settings);
      engine.handTo(worker);
      const recoveries = startRecoveries({
        sql,
        clock: engine.clock,
        pace: NEVER_QUIET,
        log: createLog('error'),
        metrics: createRecoveryMetrics(new Registry()),
        allocateIds: createIdAllocator(),
        announce: announceWork,
        shards: () => worker.ownedShards(),
        changes: () => worker.changes,
        settings: yielding,
      });
      ends.push(() => recoveries.stop());
      return `slots=${slots} slotsPerLane=${slotsPerLane} laneQueue=${laneQueue} connections=${connections}`;
    }
    return `connections=${connections}`;
  },
  publish: async (load: Load): Promise<void> => {
    const { publisher } = started();
    await runLoad(() => publisher, load);
  },
  publishAtPace: (pace: Pace): Promise<Paced> => publishAtPace(started().publisher, pace),
  /** How many files and sockets it has open, those to endpoints above all. */
  descriptors: async (_: null): Promise<number> => (await readdir('/dev/fd')).length,
  counts: async (_: null): Promise<StatementCounts> => ({ ...counts }),
};

export type EngineProcess = typeof handlers;
answer(handlers, async () => {
  for (const end of ends.toReversed()) await end();
});
