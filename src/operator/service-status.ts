/** The state of the service in each database: what is published and delivered, what waits, and how much space there is. */
import type { Clock } from '#core/clock.ts';
import { readVolume, type Volume } from '#db/activity.ts';
import { readFreeSpace } from '#db/data-folder.ts';
import type { Sql } from '#db/pool.ts';
import { readBacklog, type Backlog } from '#delivery/backlog-sql.ts';
import { createCachedRead } from '#metrics/scraped.ts';

/** `published`: events, `ended`: deliveries; averages since the previous read, `seconds` ago. */
type Rates = { published: number; ended: number; seconds: number };

/** `rates`: undefined at the first read. `freeBytes`: undefined of an external server, whose disk cannot be read. */
export type DatabaseStatus = Pick<Volume, 'sizeBytes'> & {
  rates: Rates | undefined;
  backlog: Backlog;
  freeBytes: number | undefined;
};

/** Reads the state of all databases, the home database first; undefined of one that does not respond. */
export type ReadStatuses = () => Promise<{ name: string; status: DatabaseStatus | undefined }[]>;

type Sample = Volume & { atMs: number };

/** Webhooks whose earliest delivery is read; `doctor` reads more. */
const WEBHOOKS_PER_SHARD = 20;

/** Returns undefined also if the statistics of the server were reset, or a day's table was dropped, between both samples. */
function ratesOf(before: Sample | undefined, after: Sample): Rates | undefined {
  if (before === undefined || after.published < before.published || after.ended < before.ended) return undefined;
  const seconds = (after.atMs - before.atMs) / 1_000;
  return {
    published: (after.published - before.published) / seconds,
    ended: (after.ended - before.ended) / seconds,
    seconds,
  };
}

/**
 * Returns a read of the state of a database, at most one every 5 s; its result is undefined if the database does not respond within a second.
 * The counters of the metrics are those of one process: PostgreSQL counts for all. `dataDir`: the folder of an embedded database.
 */
export function createDatabaseStatus({
  sql,
  clock,
  dataDir,
}: {
  sql: Sql;
  clock: Clock;
  dataDir: string | undefined;
}): () => Promise<DatabaseStatus | undefined> {
  let last: Sample | undefined;
  return createCachedRead(async () => {
    const volume = await readVolume(sql);
    const sample = { ...volume, atMs: clock.monotonicMs() };
    const rates = ratesOf(last, sample);
    last = sample;
    const backlog = await readBacklog(sql, clock.now(), WEBHOOKS_PER_SHARD);
    const space = dataDir === undefined ? undefined : await readFreeSpace(dataDir);
    return { rates, backlog, sizeBytes: volume.sizeBytes, freeBytes: space?.freeBytes };
  }, clock);
}
