/** SQL of the webhooks that apps created: their numbers for the pages of grants and installs, and their health for the developer. */
import { type Queryable } from '#db/pool.ts';

const DAY_MS = 86_400_000;

/** `client` is the internal id. */
export type Created = { client: number; storeId: number; total: number; active: number };

/** Returns how many webhooks the apps created for the user, by store, without those that they declare. */
export function countCreated(sql: Queryable, userId: number, clients: readonly number[]): Promise<Created[]> {
  return sql<Created[]>`
  select client, store_id as "storeId", count(*) as total, count(*) filter (where is_active) as active
  from webhook where client = any(${clients}::bigint[]) and user_id = ${userId}
    and not is_for_app
  group by client, store_id`;
}

/** The webhooks of an app in a store. `failing`: active ones whose last attempt failed. */
export type WebhooksInStore = { storeId: number; webhooks: number; active: number; failing: number };

/** Counts the webhooks of an app in these stores; stores without one are absent. */
export function countInStores(sql: Queryable, client: number, storeIds: readonly number[]): Promise<WebhooksInStore[]> {
  return sql<WebhooksInStore[]>`
  select p.id as "storeId", w.* from unnest(${storeIds}::bigint[]) as p (id)
  cross join lateral (
    select count(*) as webhooks, count(*) filter (where w.is_active) as active,
      count(*) filter (where w.is_active and t.consecutive_failures > 0) as failing
    from webhook w
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    where w.shard = p.id % 256 and w.store_id = p.id and w.client = ${client}
  ) as w
  where w.webhooks > 0`;
}

/** Webhooks beyond these are not read. */
export const WEBHOOKS_READ_MAX = 5_000;

/** A webhook of an app in a store. `isForApp`: the app declares it for all its stores; else it created it for the user. */
export type WebhookOfApp = Pick<AppWebhook, 'id' | 'userId' | 'name'> & {
  client: number;
  isActive: boolean;
  isForApp: boolean;
  events: readonly string[];
};

/** Returns the webhooks of these apps in a store, at most `WEBHOOKS_READ_MAX`. */
export function listOfApps(
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
  clients: readonly number[],
): Promise<WebhookOfApp[]> {
  return sql<WebhookOfApp[]>`
  select id, client, user_id as "userId", name, is_active as "isActive", is_for_app as "isForApp", events
  from webhook where shard = ${shard} and store_id = ${storeId} and client = any(${clients}::bigint[])
  order by id limit ${WEBHOOKS_READ_MAX}`;
}

export type AppWebhook = {
  id: number;
  storeId: number;
  /** The user whose grant the webhook depends on; null for an app of the platform. */
  userId: number | null;
  storeName: string;
  name: string;
  /** `disabled`: by a person or by Halcyon. */
  state: 'delivering' | 'failing' | 'disabled';
  /** Attempts of the last 24 hours. */
  delivered: number;
  failed: number;
};

/**
 * Returns the webhooks that the app created, with their attempts of the last 24 hours from the hourly statistics; at most
 * `WEBHOOKS_READ_MAX`.
 */
export function readAppWebhooks(sql: Queryable, client: number, now: Date): Promise<AppWebhook[]> {
  return sql<AppWebhook[]>`
    select w.id, w.store_id as "storeId", w.user_id as "userId", s.name as "storeName", w.name,
      case when not w.is_active then 'disabled' when t.consecutive_failures > 0 then 'failing' else 'delivering' end as state,
      coalesce(h.delivered, 0)::float8 as delivered, coalesce(h.failed, 0)::float8 as failed
    from (select * from webhook where client = ${client} order by user_id, id limit ${WEBHOOKS_READ_MAX}) as w
    join store s on s.shard = w.shard and s.id = w.store_id
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
    left join lateral (
      select sum(attempts) filter (where outcome = 'delivered') as delivered,
        sum(attempts) filter (where outcome <> 'delivered') as failed
      from webhook_hour
      where shard = w.shard and webhook_id = w.id and hour > ${new Date(now.getTime() - DAY_MS)}
    ) as h on true`;
}

/** Failed attempts by outcome, most frequent first. */
export type Errors = readonly { outcome: string; attempts: number }[];

type WebhookErrors = { id: number; outcome: string; attempts: number };

/** Returns the failed attempts of each of these webhooks in the last 24 hours by outcome, most frequent first. */
export function listErrors(sql: Queryable, webhooks: readonly AppWebhook[], now: Date): Promise<WebhookErrors[]> {
  const ids = webhooks.filter(({ failed }) => failed > 0).map(({ id }) => id);
  return sql<WebhookErrors[]>`
    select h.webhook_id as id, h.outcome, sum(h.attempts)::float8 as attempts
    from unnest(${ids}::bigint[]) as w (id)
    join webhook_hour h on h.shard = w.id % 256 and h.webhook_id = w.id and h.hour > ${new Date(now.getTime() - DAY_MS)}
      and h.outcome <> 'delivered'
    group by 1, 2 order by 3 desc, 2`;
}

/** Adds up the errors of webhooks: together, and the most frequent outcome of each. */
export function errorsOf(rows: readonly WebhookErrors[]): { all: Errors; ofWebhook: ReadonlyMap<number, string> } {
  const all = new Map<string, number>();
  for (const { outcome, attempts } of rows) all.set(outcome, (all.get(outcome) ?? 0) + attempts);
  const sorted = [...all].map(([outcome, attempts]) => ({ outcome, attempts }));
  return {
    all: sorted.toSorted((a, b) => b.attempts - a.attempts || (a.outcome < b.outcome ? -1 : 1)),
    // The first row of a webhook is its most frequent outcome.
    ofWebhook: new Map(rows.toReversed().map(({ id, outcome }) => [id, outcome])),
  };
}
