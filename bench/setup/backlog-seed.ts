/** A backlog by the million: stores with webhooks whose endpoints never answer, and what is pending and put off for them. */
import { nextDeliveryId } from '#db/partitions.ts';
import type { Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { dayOf, idOf, shardOf } from '#core/ids.ts';
import { createStore } from '#stores/store.ts';
import { KEY } from '../../test/setup/engine.ts';
import { eventMaker } from './seed.ts';

/** Deliveries that are due, and that are due in an hour to a day. */
export type Backlog = { webhooks: number; pending: number; deferred: number };

/** As many as a store may have. */
const WEBHOOKS_PER_STORE = 100;
/** Larger than any number that a sequence has come to here. */
const FIRST_NUMBER = 10_000_000;
const HOUR = '1 hour';
const DAY = '1 day';

type Shops = { storeId: number[]; eventId: number[]; body: string[] };

async function addShops(sql: Sql, count: number, now: Date): Promise<Shops> {
  const shops: Shops = { storeId: [], eventId: [], body: [] };
  for (let n = 0; n < count; n += 1) {
    const store = { name: `Late ${n}`, domain: `late${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
    const { id } = await createStore(sql, { ...store, now });
    shops.storeId.push(id);
    shops.eventId.push(idOf(dayOf(now) * 2 ** 30 + FIRST_NUMBER + n, shardOf(id)));
    shops.body.push(eventMaker(id)(n).body);
  }
  return shops;
}

async function addWebhooks(sql: Sql, { storeId }: Shops, urls: readonly string[], webhooks: number, secretKey: Buffer) {
  const each = Math.ceil(webhooks / storeId.length);
  const n = storeId.flatMap((_, store) => Array.from({ length: each }, (__, at) => FIRST_NUMBER + store * each + at));
  const stores = storeId.flatMap((id) => Array.from({ length: each }, () => id));
  const ids = n.map((number, index) => idOf(number, shardOf(stores[index] ?? 0)));
  const urlOf = ids.map((_, index) => urls[index % urls.length] ?? '');
  const sealer = createSealer(secretKey);
  const keys = ids.map((id) => sealer.seal(KEY, `webhook:${id}`).toString('hex'));
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, url, encryption_key, event_resource, events, is_active,
      headers, retry_profile, date_created, date_modified)
    select w.store_id % 256, w.id, w.store_id, 'late', 'json', '2', w.url, decode(w.key, 'hex'), 'transaction_log',
      array['transaction_log/created'], true, '{}', 'hour', now(), now()
    from unnest(${ids}::bigint[], ${stores}::bigint[], ${keys}::text[], ${urlOf}::text[]) as w (id, store_id, key, url)`;
}

/** `each` deliveries for every webhook, due at some time in that span, which is counted from now. */
async function addDeliveries(sql: Sql, shops: Shops, each: number, due: { from: string; to: string }, now: Date) {
  const day = dayOf(now);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select w.shard, ${nextDeliveryId(sql, day, sql`w.shard`)}, w.store_id, w.id, 0, s.event_id, 0,
      ${now}::timestamptz + ${due.from}::interval + random() * (${due.to}::interval - ${due.from}::interval)
    from unnest(${shops.storeId}::bigint[], ${shops.eventId}::bigint[]) as s (store_id, event_id)
    join webhook w on w.shard = s.store_id % 256 and w.store_id = s.store_id
    cross join generate_series(1, ${each})`;
}

/** Seeds a backlog of webhooks to these urls. Returns how long it took, in seconds. */
export async function seedBacklog(
  sql: Sql,
  urls: readonly string[],
  wanted: Backlog,
  secretKey: Buffer,
): Promise<number> {
  const startedAt = performance.now();
  const now = new Date();
  const shops = await addShops(sql, Math.ceil(wanted.webhooks / WEBHOOKS_PER_STORE), now);
  await addWebhooks(sql, shops, urls, wanted.webhooks, secretKey);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select s.store_id % 256, s.event_id, s.store_id, 'transaction_log', s.event_id::text, 'created', 1, 1, 'UTC',
      'http://localhost:8080', ${now}, s.body
    from unnest(${shops.storeId}::bigint[], ${shops.eventId}::bigint[], ${shops.body}::text[]) as s (store_id, event_id, body)`;
  const each = (count: number) => Math.ceil(count / wanted.webhooks);
  await addDeliveries(sql, shops, each(wanted.pending), { from: `-${HOUR}`, to: '0' }, now);
  if (wanted.deferred > 0) await addDeliveries(sql, shops, each(wanted.deferred), { from: HOUR, to: DAY }, now);
  await sql`analyze`;
  return (performance.now() - startedAt) / 1_000;
}
