/** The webhook of a notice. */
import type { Queryable } from '#db/pool.ts';
import type { AttemptResult } from '../history/history-documents.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { App } from './developer-sql.ts';

/**
 * The webhook of a notice with its store, its failures in the epoch of the notice, and the result of its newest attempt. Its key rotation may
 * have ended.
 */
type StoredWebhook = Pick<
  WebhookRow,
  'id' | 'name' | 'url' | 'isActive' | 'epoch' | 'retryProfile' | 'storeId' | 'timeZone' | 'rotationEndsAt' | 'client'
> &
  AttemptResult & {
    storeDomain: string;
    /** For a sandbox store the verified address of its developer; empty without one. */
    email: string;
    /** Null if there is no state of that epoch, or a later one replaced it. */
    consecutiveFailures: number | null;
    firstFailureAt: Date | null;
    isWarned: boolean | null;
    /** The user whose grant the webhook depends on, if an app created it. */
    userId: number | null;
    /** The developer whose sandbox the store is. */
    sandboxOf: number | null;
  };

/** `app`: null if no app created the webhook, or if its access to the store has ended. */
export type NotifiedWebhook = Omit<StoredWebhook, 'client' | 'userId' | 'sandboxOf'> & { app: App | null };

/** Returns the webhook of a notice; undefined if it was deleted. */
export async function findNotifiedWebhook(
  sql: Queryable,
  { shard, webhookId, epoch }: { shard: number; webhookId: number; epoch: number },
): Promise<StoredWebhook | undefined> {
  const [row] = await sql<StoredWebhook[]>`
    select w.id, w.name, w.url, w.is_active as "isActive", w.epoch, w.retry_profile as "retryProfile",
      s.id as "storeId", s.domain as "storeDomain", s.email, s.sandbox_of as "sandboxOf", s.time_zone as "timeZone", w.rotation_ends_at as "rotationEndsAt",
      t.consecutive_failures as "consecutiveFailures",
      t.first_failure_at as "firstFailureAt", t.is_warned as "isWarned", a.outcome, a.response_code as "responseCode",
      w.client, w.user_id as "userId"
    from webhook w
    join store s on s.shard = w.shard and s.id = w.store_id
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = ${epoch}
    left join lateral (
      select outcome, response_code from attempt_log
      where shard = w.shard and webhook_id = w.id and date_started > '-infinity'
      order by date_started desc limit 1
    ) as a on true
    where w.shard = ${shard} and w.id = ${webhookId}`;
  return row;
}
