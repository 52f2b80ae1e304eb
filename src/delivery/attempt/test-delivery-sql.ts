/** Statements of test deliveries, which bypass the lanes. */
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import type { AttemptRow } from './attempt.ts';

export type TestAttemptRow = AttemptRow & {
  shard: number;
  day: number;
  storeId: number;
  webhookId: number;
  eventId: number;
  now: Date;
};

/** Returns whether the webhook exists, and locks it against deletion until the transaction ends. */
export async function lockWebhook(sql: Queryable, { shard, id }: { shard: number; id: number }): Promise<boolean> {
  const rows = await sql`select from webhook where shard = ${shard} and id = ${id} for key share`;
  return rows.length === 1;
}

/**
 * Inserts the finished delivery and its only attempt; returns the delivery's id. It is never pending, so no worker
 * sends it.
 */
export async function insertTestDelivery(sql: Queryable, row: TestAttemptRow): Promise<number> {
  const [written] = await sql<{ id: number }[]>`
    with allocated as materialized (
      select ${nextDeliveryId(sql, row.day, sql`${row.shard}::smallint`)} as id
    )
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started,
      duration_ms, outcome, response_code, response_headers, response_body)
    select ${row.shard}, id, ${row.storeId}, ${row.webhookId}, ${row.eventId}, ${row.state}, 1, ${row.now}, ${row.startedAt},
      ${row.durationMs}, ${row.outcome}, ${row.responseCode}, ${row.responseHeaders}, ${row.responseBody}
    from allocated
    returning id`;
  if (written === undefined) throw new Error('Inserting a delivery returned no row');
  return written.id;
}
