/** The expired rows of deliveries. Their events and attempts are dropped by whole days: `db/partitions.ts`. */
import type { Sql } from '#db/pool.ts';
import { purgesOf, type Purge } from '#db/purges.ts';
import { purgeOrder } from './queue/queue-sql.ts';
import { purgeStates } from './record/record-sql.ts';
import { purgeHours } from './delivery-sql.ts';

const DAY_MS = 86_400_000;

/** Hourly statistics are deleted when no chart shows them any more. */
export function createDeliveryPurges({ sql, hoursKeptDays }: { sql: Sql; hoursKeptDays: number }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'webhook_states', by: (_, _before, limit) => purgeStates(sql, limit) },
    { name: 'webhook_hours', by: purgeHours, keptMs: hoursKeptDays * DAY_MS },
    { name: 'delivery_order', by: (_, _before, limit) => purgeOrder(sql, limit) },
  ]);
}
