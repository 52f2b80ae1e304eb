/** The changelog as a command writes it, with no Halcyon running beside it that keeps the days of events. */
import { maintainPartitions } from '#database/partitions.ts';
import type { Sql } from '#database/pool.ts';
import type { Config } from '#config.ts';
import { openNative } from '#publishing.ts';

/** Past midnight, however long the command takes. */
const DAYS_AHEAD = 1;

/** Makes today's partitions where they are missing, and drops none: that takes its time, and is the service's. */
export const openChangelog = async (config: Config, sql: Sql): Promise<ReturnType<typeof openNative>> => {
  const retentionDays = Number.POSITIVE_INFINITY;
  await maintainPartitions(sql, { now: new Date(), retentionDays, daysAhead: DAYS_AHEAD });
  return openNative(config);
};
