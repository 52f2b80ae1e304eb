/** Counts of the rows that requests have left; and the expected counts of one that was published completely. */
import type { Sql } from '#db/pool.ts';
import type { Request } from './load.ts';

/** Deliveries by the resource of the event, as `webhooks` webhooks of that resource create them. */
export type Webhooks = Readonly<Record<string, number>>;

export type Left = {
  events: number;
  derived: number;
  deliveries: number;
  resources: number;
  terms: number;
  keys: number;
};

const NOTHING: Left = { events: 0, derived: 0, deliveries: 0, resources: 0, terms: 0, keys: 0 };

export function isNothing(left: Left): boolean {
  return Object.values(left).every((count) => count === 0);
}

export function wholeOf({ events, keys }: Request, webhooks: Webhooks): Left {
  const types = events.map(({ event }) => event.split('/', 1)[0] ?? '');
  const derived = types.filter((type) => type === 'subscription').length;
  const all = [...types, ...Array.from({ length: derived }, () => 'subscription_event')];
  return {
    events: types.length,
    derived,
    deliveries: all.reduce((sum, type) => sum + (webhooks[type] ?? 0), 0),
    // The latest version of a shared resource may belong to another request.
    resources: all.length - events.filter(({ resource }) => resource.id.startsWith('shared')).length,
    terms: derived,
    keys: keys.length,
  };
}

/**
 * By request. A derived event is identified by its subscription. A resource counts if its latest version is that
 * of the event, a key if all its events are there.
 */
export async function readLeft(sql: Sql): Promise<(n: number) => Left> {
  const rows = await sql<({ n: number } & Left)[]>`
    with e as materialized (
      select id, resource_type, resource_id, resource_type = 'subscription_event' as is_derived,
        coalesce(body::json ->> 'request', split_part(body::json ->> 'subscription_id', '-', 1))::int as n
      from event where resource_type in ('transaction', 'customer', 'subscription', 'subscription_event')
    ), d as materialized (
      select event_id, count(distinct webhook_id) as webhooks from delivery group by event_id
    ), per_event as (
      select n, count(*) filter (where not is_derived) as events, count(*) filter (where is_derived) as derived,
        sum(coalesce(d.webhooks, 0))::int as deliveries,
        count(r.id) filter (where r.id not like 'shared%') as resources
      from e
      left join d on d.event_id = e.id
      left join resource r on r.type = e.resource_type and r.id = e.resource_id and r.event_id = e.id
      group by n
    ), per_term as (
      select split_part(subscription_id, '-', 1)::int as n, count(*) as terms from subscription_term group by 1
    ), per_key as (
      select split_part(key, '-', 1)::int as n, count(*) as keys from publish_key k
      where k.event_ids <@ (select array_agg(id) from e where e.n = split_part(k.key, '-', 1)::int)
      group by 1
    )
    select coalesce(e.n, t.n, k.n) as n, coalesce(events, 0) as events, coalesce(derived, 0) as derived,
      coalesce(deliveries, 0) as deliveries, coalesce(resources, 0) as resources, coalesce(terms, 0) as terms,
      coalesce(keys, 0) as keys
    from per_event e full join per_term t using (n) full join per_key k using (n)`;
  const byRequest = new Map(rows.map(({ n, ...left }) => [n, left]));
  return (n) => byRequest.get(n) ?? NOTHING;
}

/** The shared resources: the version of each, the number of its events, and their versions. */
export async function readShared(sql: Sql) {
  return sql<{ id: string; version: number; isLatest: boolean; events: number; versions: number[] }[]>`
  select r.id, r.version, r.event_id = (array_agg(e.id order by e.version desc))[1] as "isLatest", count(*) as events,
    array_agg(e.version order by e.version) as versions
  from resource r join event e on e.resource_type = r.type and e.resource_id = r.id
  where r.type = 'customer' and r.id like 'shared%'
  group by r.shard, r.store_id, r.type, r.id, r.version, r.event_id
  order by r.id`;
}

/** Waits for statements of killed servers to end, so that the tables do not change any more. */
export async function processesAtWork(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*) as n from pg_stat_activity
    where datname = current_database() and application_name like 'halcyon%' and pid <> pg_backend_pid()`;
  return row?.n ?? 0;
}
