/** The webhook of a notice. */
import type { Queryable } from '#db/pool.ts';
import type { App } from './developer-sql.ts';

/** The webhook of a notice with its store, and its failures in the epoch of the notice. */
type StoredWebhook = {
  id: number;
  name: string;
  url: string | null;
  isActive: boolean;
  epoch: number;
  retryProfile: 'hour' | 'long';
  storeId: number;
  storeDomain: string;
  /** For a sandbox store the verified address of its developer; empty without one. */
  email: string;
  timeZone: string;
  /** The end of a key rotation, which may have passed. */
  rotationEndsAt: Date | null;
  /** Null if there is no state of that epoch, or a later one replaced it. */
  consecutiveFailures: number | null;
  firstFailureAt: Date | null;
  isWarned: boolean | null;
  /** The outcome of the newest attempt; null if there is none. */
  outcome: string | null;
  responseCode: number | null;
  /** The app that created the webhook, and the user whose grant it depends on. */
  client: number | null;
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
