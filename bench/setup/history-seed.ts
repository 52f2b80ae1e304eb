/**
 * Fills one store with a month of history, by statements over whole days: events, deliveries with their attempts, resources and
 * webhooks. The first webhook has a quarter of the deliveries.
 */
import { countDays } from '#db/day-counts.ts';
import { createMissing } from '#db/partitions.ts';
import type { Sql } from '#db/pool.ts';
import { emptyHistogram } from '#core/histogram.ts';
import { dayOf, firstIdOfDay, shardOf, startOfDay } from '#core/ids.ts';
import { addWebhook } from './seed.ts';

const DAY_MS = 86_400_000;

export type HistorySize = {
  days: number;
  events: number;
  deliveriesPerEvent: number;
  resources: number;
  webhooks: number;
};

/** Share of the deliveries of the first webhook, in percent. */
const FIRST_WEBHOOK_PERCENT = 24;
const FAILED_PERCENT = 3;
const RETRIED_PERCENT = 5;
const PENDING = 2_000;
/** One changelog for so many other resources, with numbers after those of the events. */
const CHANGES_SHARE = 10;
const CHANGE_NUMBERS = 10_000_000;

async function addWebhooks(sql: Sql, storeId: number, count: number, secretKey: Buffer, now: Date): Promise<number[]> {
  const ids: number[] = [];
  const shared = { storeId, url: 'https://receiver.example.com/hooks', event: 'transaction/created', now };
  for (let n = 0; n < count; n += 1) ids.push(await addWebhook(sql, secretKey, { ...shared, name: `Webhook ${n}` }));
  return ids;
}

/** Returns the ids of the webhooks. Pending deliveries are due in an hour, so that none is sent. */
export async function seedHistory(
  sql: Sql,
  storeId: number,
  secretKey: Buffer,
  { days, events, deliveriesPerEvent, resources, webhooks }: HistorySize,
): Promise<number[]> {
  const now = new Date();
  const [today, shard] = [dayOf(now), shardOf(storeId)];
  await createMissing(sql, today - days + 1, days + 2);
  const ids = await addWebhooks(sql, storeId, webhooks, secretKey, now);
  const perDay = Math.ceil(events / days);
  const deliveriesPerDay = Math.ceil(perDay * deliveriesPerEvent);
  const stepMs = DAY_MS / perDay;
  await sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
    select ${shard}, ${storeId}, case when n % 10 < 6 then 'transaction' else 'customer' end, n::text, 1,
      ${now}::timestamptz - (hashint8(n) & 2147483647) % (${days}::int * 86400) * interval '1 s', ${firstIdOfDay(today)}::bigint, 'UTC', 'http://localhost',
      json_build_object('id', n, 'customer_id', n % 5000, 'status', (array['open', 'shipped', 'void'])[n % 3 + 1], 'total', n % 997,
        'note', repeat('x', 500))::text
    from generate_series(1, ${resources}::int) as n`;
  for (let day = today - days + 1; day <= today; day += 1) {
    const first = firstIdOfDay(day);
    await sql`
      insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
      select ${shard}, ${storeId}, 'changelog', id::text, 1, at, id, 'UTC', 'http://localhost',
        json_build_object('id', id, 'resource', 'webhook', 'action', 'changed', 'date_created', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+0000"'))::text
      from generate_series(1, ${Math.ceil(resources / CHANGES_SHARE / days)}::int) as n
      cross join lateral (select ${first}::bigint + (n + ${CHANGE_NUMBERS}::int)::bigint * 256 + ${shard} as id,
        ${startOfDay(day)}::timestamptz + n * interval '1 s' as at) as made`;
    // Of the current day only what has passed.
    const dayMs = Math.min(DAY_MS, now.getTime() - startOfDay(day).getTime());
    const share = dayMs / DAY_MS;
    const [count, deliveries] = [Math.floor(perDay * share), Math.floor(deliveriesPerDay * share)];
    await sql`
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      select ${shard}, ${first}::bigint + n::bigint * 256 + ${shard}, ${storeId},
        case when r % 10 < 6 then 'transaction' else 'customer' end, r::text,
        case when n % 4 = 0 then 'created' else 'modified' end, 1, n, 'UTC', 'http://localhost',
        ${startOfDay(day)}::timestamptz + n * ${stepMs}::float8 * interval '1 ms', json_build_object('id', r, 'note', repeat('x', 400))::text
      from (select n, (hashint8(n::bigint + ${first}::bigint) & 2147483647) % ${resources}::int + 1 as r
        from generate_series(1, ${count}::int) as n) as picked`;
    // A delivery for each event, and a second one for a part of them.
    const delivered = sql`
      select n, ${first}::bigint + n::bigint * 256 + ${shard} as id,
        ${first}::bigint + ((n - 1) % greatest(1, ${count}::int) + 1)::bigint * 256 + ${shard} as event_id,
        (${ids}::bigint[])[case when h % 100 < ${FIRST_WEBHOOK_PERCENT} then 1 else 2 + h % greatest(1, ${ids.length - 1}) end] as webhook_id,
        h / 100 % 100 < ${FAILED_PERCENT} as failed, h / 10000 % 100 < ${RETRIED_PERCENT} as retried,
        ${startOfDay(day)}::timestamptz + n * ${DAY_MS / deliveriesPerDay}::float8 * interval '1 ms' as at
      from (select n, hashint8(n::bigint * 7 + ${first}::bigint) & 2147483647 as h from generate_series(1, ${deliveries}::int) as n) as picked`;
    await sql`
      with d as (${delivered})
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started, duration_ms,
        outcome, response_code, response_headers, response_body)
      select ${shard}, id, ${storeId}, webhook_id, event_id, case when failed then 'failed' else 'successful' end,
        case when retried or failed then 2 else 1 end, at + interval '1 s', at, 40, case when failed then 'refused' else 'delivered' end,
        case when failed then 500 else 200 end, 'content-type: text/plain', case when failed then 'out of stock ' || n else 'ok' end from d order by id`;
    await sql`
      with d as (${delivered})
      insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code)
      select ${shard}, id, 1, ${storeId}, webhook_id, event_id, at - interval '1 minute', 40, 'refused', 500
      from d where retried or failed order by id`;
    await sql`select setval(${`event_n_d${day}`}::regclass, ${Math.ceil((count + 1) / 256) * 256}::int),
      setval(${`delivery_n_d${day}`}::regclass, ${deliveries + 1 + PENDING}::int)`;
    if (day === today)
      await sql`
        insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
        select ${shard}, ${first}::bigint + (n + ${deliveries}::int)::bigint * 256 + ${shard}, ${storeId}, ${ids[0] ?? 0}, 0,
          ${first}::bigint + n::bigint * 256 + ${shard}, ${new Date(now.getTime() + 3_600_000)} from generate_series(1, ${Math.min(PENDING, count)}::int) as n`;
  }
  // The chain of the events of each resource.
  await sql`
    update event e set previous_id = b.previous_id
    from (
      select id, lag(id) over (partition by resource_type, resource_id order by id) as previous_id from event where shard = ${shard}
    ) b
    where e.shard = ${shard} and e.id = b.id and b.previous_id is not null`;
  await sql`
    update resource r set event_id = h.id, head_event_id = h.id
    from (select resource_type, resource_id, max(id) as id from event where shard = ${shard} group by 1, 2) h
    where r.shard = ${shard} and r.store_id = ${storeId} and r.type = h.resource_type and r.id = h.resource_id`;
  await sql`
    insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
    select ${shard}, w, ${now}::timestamptz - h * interval '1 hour', 'delivered', 10, array_fill(1::bigint, array[${emptyHistogram().length}::int])
    from unnest(${ids}::bigint[]) as w, generate_series(0, 23) as h on conflict do nothing`;
  await countDays(sql, { shards: [shard], now, first: today - days, mayContinue: () => true });
  await sql`vacuum analyze`;
  return ids;
}
