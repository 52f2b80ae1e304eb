/** The read-only statements of a delivery's page. */
import type { AttemptResult } from './reason.ts';
import type { Queryable } from '#db/pool.ts';
import { attemptSelection, withShownEvent, type AttemptRow, type Owner } from './history-sql.ts';

/** Returns the last `limit` attempts of a delivery, oldest first. */
export async function attemptsAt(
  sql: Queryable,
  owner: Pick<Owner, 'shard' | 'storeId' | 'id'>,
  deliveryId: number,
  limit: number,
): Promise<AttemptRow[]> {
  return sql<AttemptRow[]>`
  select ${attemptSelection(sql)}
  from (
    select * from attempt_log
    where shard = ${owner.shard} and delivery_id = ${deliveryId} and store_id = ${owner.storeId} and webhook_id = ${owner.id}
      and outcome is not null
    order by n desc limit ${limit}
  ) as d ${withShownEvent(sql, owner)}
  order by d.n`;
}

/** Returns when the store was last changed, whose domain is in every request; null if it never was. */
export async function storeChangedAt(
  sql: Queryable,
  { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>,
): Promise<Date | null> {
  const [row] = await sql<{ changedAt: Date | null }[]>`
    select case when date_modified > date_created then date_modified end as "changedAt"
    from store where shard = ${shard} and id = ${storeId}`;
  return row?.changedAt ?? null;
}

/** Returns the result of the newest attempt of the webhook; undefined if there is none. */
export async function newestAttemptOf(
  sql: Queryable,
  { shard, id }: Pick<Owner, 'shard' | 'id'>,
): Promise<AttemptResult | undefined> {
  const [row] = await sql<AttemptResult[]>`
    select outcome, response_code as "responseCode" from attempt_log
    where shard = ${shard} and webhook_id = ${id} and date_started > '-infinity'
    order by date_started desc limit 1`;
  return row;
}

/**
 * Returns the id of the pending delivery whose end this one waits for, because its webhook has the ordering `resource`; null if it
 * waits for none.
 */
export async function precedingOf(
  sql: Queryable,
  { shard }: Pick<Owner, 'shard'>,
  deliveryId: number,
): Promise<number | null> {
  const [row] = await sql<{ id: number }[]>`
    select d.id
    from delivery_order self
    join delivery s on s.shard = self.shard and s.id = self.delivery_id
    join delivery_order o on o.shard = self.shard and o.webhook_id = self.webhook_id
      and o.resource_key = self.resource_key and o.version < self.version
    join delivery d on d.shard = o.shard and d.id = o.delivery_id and d.epoch = s.epoch
    where self.shard = ${shard} and self.delivery_id = ${deliveryId}
    order by o.version desc
    limit 1`;
  return row?.id ?? null;
}
