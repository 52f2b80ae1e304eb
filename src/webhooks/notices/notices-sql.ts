import type { Queryable } from '#db/pool.ts';

/** A webhook at which nothing arrives, with its store and how it fared in the epoch that is told of. */
export type Noticed = {
  id: number;
  name: string;
  url: string | null;
  isActive: boolean;
  epoch: number;
  retryProfile: 'hour' | 'long';
  storeId: number;
  storeDomain: string;
  email: string;
  timeZone: string;
  /** Null where that epoch left no state, or a later one has taken its place. */
  consecutiveFailures: number | null;
  firstFailureAt: Date | null;
  isWarned: boolean | null;
  /** Of the newest attempt; null where none is kept. */
  outcome: string | null;
  responseCode: number | null;
};

/** Undefined where the webhook was deleted meanwhile. */
export const findNoticed = async (
  sql: Queryable,
  { shard, webhookId, epoch }: { shard: number; webhookId: number; epoch: number },
): Promise<Noticed | undefined> => {
  const [row] = await sql<Noticed[]>`
    select w.id, w.name, w.url, w.is_active as "isActive", w.epoch, w.retry_profile as "retryProfile",
      s.id as "storeId", s.domain as "storeDomain", s.email, s.time_zone as "timeZone", t.consecutive_failures as "consecutiveFailures",
      t.first_failure_at as "firstFailureAt", t.is_warned as "isWarned", a.outcome, a.response_code as "responseCode"
    from webhook w
    join store s on s.shard = w.shard and s.id = w.store_id
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = ${epoch}
    left join lateral (
      select outcome, response_code from attempt
      where shard = w.shard and webhook_id = w.id
      order by date_started desc limit 1
    ) as a on true
    where w.shard = ${shard} and w.id = ${webhookId}`;
  return row;
};
