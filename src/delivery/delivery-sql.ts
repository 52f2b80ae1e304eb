import type { Queryable } from '#db/pool.ts';

/** Tells the owners of shards that webhooks have new work; `payload` is `shard:webhook`, parted by commas. */
export const notify = async (sql: Queryable, channel: string, payload: string): Promise<void> => {
  await sql`select pg_notify(${channel}, ${payload})`;
};
