import type { Queryable } from '#db/pool.ts';

/** Sends a NOTIFY. For new work `payload` is a list of `shard:webhook:delivery`, separated by commas. */
export async function notify(sql: Queryable, channel: string, payload: string): Promise<void> {
  await sql`select pg_notify(${channel}, ${payload})`;
}
