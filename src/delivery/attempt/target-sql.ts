/** The statement that reads the targets of webhooks, by shard and id. */
import type { Queryable } from '#db/pool.ts';
import type { TargetRow } from './target.ts';

export async function loadTargets(sql: Queryable, shards: number[], webhookIds: number[]) {
  return sql<TargetRow[]>`
  select w.id, w.store_id as "storeId", s.domain as "storeDomain", w.epoch, w.revision, w.is_active as "isActive", w.is_held as "isHeld", w.format, w.url,
    w.query, coalesce(w.encryption_key, a.key) as "encryptionKey", a.client as "appOfKey", coalesce(w.next_encryption_key, a.next_key) as "nextEncryptionKey",
    coalesce(w.rotation_ends_at, a.rotation_ends_at) as "rotationEndsAt", w.event_resource as "eventResource", w.headers,
    w.request_secrets as "requestSecrets",
    w.rate_per_second as "ratePerSecond", w.retry_profile as "retryProfile", w.ordering is not null as "isOrdered",
    coalesce(t.consecutive_failures, 0) as "consecutiveFailures", t.first_failure_at as "firstFailureAt",
    coalesce(t.is_warned and t.consecutive_failures > 0, false) as "isWarned", t.paused_until as "pausedUntil", t.probe_at as "probeAt",
    coalesce(t.is_condemned and t.consecutive_failures > 0, false) as "isPendingDisable",
    coalesce(t.consecutive_failures = 0, false) as "hasSucceeded"
  from unnest(${shards}::smallint[], ${webhookIds}::bigint[]) as lane (shard, id)
  cross join lateral (select * from webhook w where w.shard = lane.shard and w.id = lane.id limit 1) as w
  cross join lateral (select s.domain from store s where s.shard = lane.shard and s.id = w.store_id limit 1) as s
  left join lateral (
    select * from app_webhook a where w.is_for_app and a.client = w.client limit 1
  ) as a on true
  left join lateral (
    select * from webhook_state t where t.shard = lane.shard and t.webhook_id = w.id and t.epoch = w.epoch limit 1
  ) as t on true`;
}
