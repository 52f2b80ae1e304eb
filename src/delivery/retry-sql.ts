/** SQL that makes pending deliveries due before their time; to be called in a transaction that has locked the row of the webhook. */
import type { Queryable } from '#db/pool.ts';

/** A pending delivery of a webhook, or all without `deliveryId`. */
export type Retried = { shard: number; webhookId: number; epoch: number; deliveryId: number | undefined; now: Date };

/**
 * Deliveries that are due within this time keep it. A worker may be sending them, and the record of an attempt does not find a row
 * that another transaction changed meanwhile (delivery/record/record-sql.ts). Longer than the transaction takes.
 */
const DUE_SOON_MS = 10_000;
/** More deliveries than wait for a retry while a breaker limits the attempts; others keep their due times. */
const RETRIED_MAX = 10_000;

/** Makes one pending delivery of the webhook due now, or all of them. */
export async function makeDue(tx: Queryable, { shard, webhookId, epoch, deliveryId, now }: Retried): Promise<void> {
  const soon = new Date(now.getTime() + DUE_SOON_MS);
  const chosen = deliveryId === undefined ? tx`` : tx`and id = ${deliveryId}`;
  await tx`
    update delivery set due_at = ${now} where ctid = any(array(
      select ctid from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and epoch = ${epoch} and due_at > ${soon} and due_at > '-infinity'
        and due_at < 'infinity' ${chosen}
      order by due_at limit ${RETRIED_MAX} for update skip locked
    ))`;
}

/** Ends the pause of the webhook and makes a probe due in the table; the worker keeps both in memory. */
export async function endBackoff(
  tx: Queryable,
  { shard, webhookId, epoch, now }: Omit<Retried, 'deliveryId'>,
): Promise<void> {
  await tx`
    update webhook_state set paused_until = null, probe_at = least(probe_at, ${now})
    where shard = ${shard} and webhook_id = ${webhookId} and epoch = ${epoch}`;
}
