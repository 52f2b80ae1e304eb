/** The read-only statement of a notice. */
import type { Queryable } from '#db/pool.ts';

/** The webhook of a notice with its store, and its failures in the epoch of the notice. */
export type NotifiedWebhook = {
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
  /** Null if there is no state of that epoch, or a later one replaced it. */
  consecutiveFailures: number | null;
  firstFailureAt: Date | null;
  isWarned: boolean | null;
  /** The outcome of the newest attempt; null if there is none. */
  outcome: string | null;
  responseCode: number | null;
  /** Null if no app created the webhook, or its access to the store has ended. */
  app: App | null;
};

/** `developer`: the verified e-mail address of its owner; null if it belongs to the operator. */
type App = { clientId: string; name: string; developer: string | null };

/** Returns the webhook of a notice; undefined if it was deleted. */
export async function findNotifiedWebhook(
  sql: Queryable,
  { shard, webhookId, epoch }: { shard: number; webhookId: number; epoch: number },
): Promise<NotifiedWebhook | undefined> {
  const [row] = await sql<NotifiedWebhook[]>`
    select w.id, w.name, w.url, w.is_active as "isActive", w.epoch, w.retry_profile as "retryProfile",
      s.id as "storeId", s.domain as "storeDomain", case when s.sandbox_of is null then s.email else coalesce(d.email, '') end as email, s.time_zone as "timeZone", t.consecutive_failures as "consecutiveFailures",
      t.first_failure_at as "firstFailureAt", t.is_warned as "isWarned", a.outcome, a.response_code as "responseCode",
      case when c.id is not null then jsonb_build_object('clientId', c.client_id, 'name', c.name, 'developer', u.email) end as app
    from webhook w
    join store s on s.shard = w.shard and s.id = w.store_id
    left join users d on d.id = s.sandbox_of and d.is_email_verified and d.date_disabled is null
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = ${epoch}
    left join lateral (
      select outcome, response_code from attempt_log
      where shard = w.shard and webhook_id = w.id and date_started > '-infinity'
      order by date_started desc limit 1
    ) as a on true
    left join client c on c.id = w.client and c.date_deleted is null and exists (
      select from access_grant g
      where g.client = w.client and g.user_id = w.user_id and g.date_revoked is null
        and (g.store_id is null or g.store_id = w.store_id)
    )
    left join users u on u.id = c.owner and u.is_email_verified and u.date_disabled is null
    where w.shard = ${shard} and w.id = ${webhookId}`;
  return row;
}
