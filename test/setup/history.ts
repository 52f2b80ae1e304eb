/** Inserts events, deliveries and attempts as the modules events and delivery do; the n-th delivery is of the n-th event. */
import type { Sql } from '#db/pool.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';

/** Beyond the numbers of the changelog events of the same day. */
const FIRST_NUMBER = 1_000_000;

type About = { type?: string; resourceId?: string; action?: string };

export function createHistory(sql: Sql, { storeId, webhook }: { storeId: number; webhook: number }) {
  const shard = storeId % 256;
  const id = (n: number): number => dailyIdOf(dayOf(at(n)), FIRST_NUMBER + n, shard);
  /** Returns the time `seconds` after 10:00 on 1 July 2026, UTC. */
  const at = (seconds: number): Date => new Date(Date.UTC(2026, 6, 1, 10, 0, seconds));
  return {
    id,
    event: (n: number, { type = 'transaction', resourceId = `T ${n}`, action = 'created' }: About = {}) => sql`
      insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
        date_created, body)
      values (${shard}, ${id(n)}, ${storeId}, ${type}, ${resourceId}, ${action}, 1, 1, 'UTC', '', ${at(n)}, '{}')`,
    pending: (n: number, { of = webhook, epoch = 0 }: { of?: number; epoch?: number } = {}) => sql`
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
      values (${shard}, ${id(n)}, ${storeId}, ${of}, ${epoch}, ${id(n)}, 1, ${at(n + 30)})`,
    ended: (n: number, state: 'successful' | 'failed') => sql`
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      values (${shard}, ${id(n)}, ${storeId}, ${webhook}, ${id(n)}, ${state}, 2, ${at(n + 1)})`,
    attempt: (delivery: number, n: number, code: number | null) => sql`
      insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome,
        response_code, response_headers, response_body)
      values (${shard}, ${id(delivery)}, ${n}, ${storeId}, ${webhook}, ${id(delivery)}, ${at(delivery * 2 + n)}, ${120},
        ${code === null ? 'timed_out:answer' : code < 300 ? 'delivered' : 'refused'}, ${code}, ${code === null ? null : 'content-type: text/plain'},
        ${code === null ? null : 'hello'})`,
  };
}
