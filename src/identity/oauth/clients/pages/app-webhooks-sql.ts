/** SQL of the webhooks that an app created, in all stores that it has access to, for the developer of the app. */
import type { Queryable } from '#db/pool.ts';

/** More webhooks than these are not read. */
export const WEBHOOKS_READ_MAX = 5_000;
const SHOWN_MAX = 50;
const DAY_MS = 86_400_000;

export type AppWebhook = {
  id: number;
  storeId: number;
  storeName: string;
  name: string;
  /** `disabled`: by a person or by Halcyon. */
  state: 'delivering' | 'failing' | 'disabled';
  /** Attempts of the last 24 hours. */
  delivered: number;
  failed: number;
};

/** Failed attempts by outcome, most frequent first. */
export type Errors = readonly { outcome: string; attempts: number }[];

/**
 * Returns the webhooks that the app created, with their attempts of the last 24 hours from the hourly statistics; at most
 * `WEBHOOKS_READ_MAX`. After the end of its access the developer does not see a store any more.
 */
export async function readAppWebhooks(sql: Queryable, client: number, now: Date): Promise<AppWebhook[]> {
  return sql<AppWebhook[]>`
    select w.id, w.store_id as "storeId", s.name as "storeName", w.name,
      case when not w.is_active then 'disabled' when t.consecutive_failures > 0 then 'failing' else 'delivering' end as state,
      coalesce(h.delivered, 0)::float8 as delivered, coalesce(h.failed, 0)::float8 as failed
    from (select * from webhook where client = ${client} order by user_id, id limit ${WEBHOOKS_READ_MAX}) as w
    join store s on s.shard = w.shard and s.id = w.store_id
    join membership m on m.shard = w.shard and m.store_id = w.store_id and m.user_id = w.user_id
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    left join lateral (
      select sum(attempts) filter (where outcome = 'delivered') as delivered,
        sum(attempts) filter (where outcome <> 'delivered') as failed
      from webhook_hour
      where shard = w.shard and webhook_id = w.id and hour > ${new Date(now.getTime() - DAY_MS)}
    ) as h on true
    where exists (
      select from access_grant g
      where g.client = ${client} and g.user_id = w.user_id and g.date_revoked is null
        and (g.store_id is null or g.store_id = w.store_id)
    )`;
}

/** Returns the failed attempts of these webhooks in the last 24 hours by outcome, together and of each. */
export async function readErrors(
  sql: Queryable,
  webhooks: readonly AppWebhook[],
  now: Date,
): Promise<{ all: Errors; ofWebhook: ReadonlyMap<number, string> }> {
  const ids = webhooks.filter(({ failed }) => failed > 0).map(({ id }) => id);
  const rows = await sql<{ id: number; outcome: string; attempts: number }[]>`
    select h.webhook_id as id, h.outcome, sum(h.attempts)::float8 as attempts
    from unnest(${ids}::bigint[]) as w (id)
    join webhook_hour h on h.shard = w.id % 256 and h.webhook_id = w.id and h.hour > ${new Date(now.getTime() - DAY_MS)}
      and h.outcome <> 'delivered'
    group by 1, 2 order by 3 desc, 2`;
  const all = new Map<string, number>();
  for (const { outcome, attempts } of rows) all.set(outcome, (all.get(outcome) ?? 0) + attempts);
  const sorted = [...all].map(([outcome, attempts]) => ({ outcome, attempts }));
  return {
    all: sorted.toSorted((a, b) => b.attempts - a.attempts || (a.outcome < b.outcome ? -1 : 1)),
    // The first row of a webhook is its most frequent outcome.
    ofWebhook: new Map(rows.toReversed().map(({ id, outcome }) => [id, outcome])),
  };
}

const STATES: readonly AppWebhook['state'][] = ['failing', 'delivering', 'disabled'];

/**
 * Returns the webhooks of the stores whose name contains the search, in any case: failing ones first, then those with the most failed
 * attempts; at most 50.
 */
export function findAppWebhooks(webhooks: readonly AppWebhook[], search: string): AppWebhook[] {
  const wanted = search.toLowerCase();
  return webhooks
    .filter(({ storeName }) => storeName.toLowerCase().includes(wanted))
    .toSorted(
      (a, b) =>
        STATES.indexOf(a.state) - STATES.indexOf(b.state) ||
        b.failed - a.failed ||
        a.storeName.localeCompare(b.storeName, 'en') ||
        a.id - b.id,
    )
    .slice(0, SHOWN_MAX);
}
