/**
 * Notifications between processes (NOTIFY): new work for a shard's owner, changed webhooks, erased events, requested retries. Polling
 * finds whatever a notification misses.
 */
import { listen, type Queryable, type Sql } from '#db/pool.ts';
import type { Running, Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { notify, endBackoff, makeDue, type Retried } from './delivery-sql.ts';

const WORK_CHANNEL = 'halcyon_work';
const WEBHOOK_CHANNEL = 'halcyon_webhook';
const EVENT_CHANNEL = 'halcyon_event';
const RETRY_CHANNEL = 'halcyon_retry';

export type LaneKey = { shard: number; webhookId: number };
/** A committed delivery. */
export type Work = LaneKey & { deliveryId: number };
/** Without a delivery id, all rows of the webhook that are due. */
export type AnnouncedWork = LaneKey & { deliveryId: number | undefined };
export type ErasedEvents = { shard: number; ids: readonly number[] };

/** A payload has at most 8,000 bytes; a key at most 37 and a comma. */
const KEYS_PER_NOTIFICATION = 200;
const COALESCE_MS = 5;

const workKey = ({ shard, webhookId, deliveryId }: Work): string => `${shard}:${webhookId}:${deliveryId}`;

const parseKeys = (payload: string): AnnouncedWork[] =>
  payload.split(',').flatMap((key) => {
    const [shard = NaN, webhookId = NaN, deliveryId] = key.split(':').map(Number);
    return Number.isInteger(shard) && Number.isInteger(webhookId) ? [{ shard, webhookId, deliveryId }] : [];
  });

async function notifyAll(sql: Queryable, channel: string, keys: readonly (string | number)[]): Promise<void> {
  for (let at = 0; at < keys.length; at += KEYS_PER_NOTIFICATION)
    await notify(sql, channel, keys.slice(at, at + KEYS_PER_NOTIFICATION).join(','));
}

/**
 * Calls a handler for each notification, and `onMissed` after the connection was down or silent and may have missed
 * some.
 */
export function listenForChanges(
  sql: Sql,
  handlers: {
    onWork: (work: readonly AnnouncedWork[]) => void;
    onWebhook: (lane: LaneKey) => void;
    onRetry: (requests: readonly AnnouncedWork[]) => void;
    onEvents: (ids: readonly number[]) => void;
    onMissed: () => void;
  },
  { silenceMs, pace }: { silenceMs: number; pace: Pace },
): Promise<Running> {
  return listen(
    sql,
    {
      [WORK_CHANNEL]: (payload) => handlers.onWork(parseKeys(payload)),
      [WEBHOOK_CHANNEL]: (payload) => parseKeys(payload).forEach(handlers.onWebhook),
      [EVENT_CHANNEL]: (payload) => handlers.onEvents(payload.split(',').map(Number)),
      [RETRY_CHANNEL]: (payload) => handlers.onRetry(parseKeys(payload)),
    },
    { onMissed: handlers.onMissed, silenceMs, pace },
  );
}

/** Announces new work when the transaction commits; nothing is sent if it rolls back. */
export function announceWork(tx: Queryable, work: readonly Work[]): Promise<void> {
  return notifyAll(tx, WORK_CHANNEL, work.map(workKey));
}

/**
 * Announces changed webhooks when the transaction commits. A notification sent after the commit could be lost, and a
 * busy lane would continue with the old settings.
 */
export function announceChanged(tx: Queryable, webhooks: readonly LaneKey[]): Promise<void> {
  return notifyAll(
    tx,
    WEBHOOK_CHANNEL,
    webhooks.map(({ shard, webhookId }) => `${shard}:${webhookId}`),
  );
}

/**
 * Announces, when the transaction commits, that an attempt of the delivery was requested, or of all pending ones of the webhook
 * without an id. If the notification is missed, they are attempted at their due time and at the next probe.
 */
function announceRetry(tx: Queryable, { shard, webhookId, deliveryId }: AnnouncedWork): Promise<void> {
  const key = deliveryId === undefined ? `${shard}:${webhookId}` : workKey({ shard, webhookId, deliveryId });
  return notifyAll(tx, RETRY_CHANNEL, [key]);
}

/** Announces erased events when the transaction commits, so that no process sends them from memory. */
export function announceErased(tx: Queryable, { ids }: ErasedEvents): Promise<void> {
  return notifyAll(tx, EVENT_CHANNEL, ids);
}

export type Announcer = Running & {
  /** Announces new work; calls within a few milliseconds are combined into one notification. */
  work: (work: Work) => void;
};

export function createAnnouncer(deps: { sql: Sql; log: Log }): Announcer {
  let pending: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = async () => {
    timer = undefined;
    const keys = pending;
    pending = [];
    await notifyAll(deps.sql, WORK_CHANNEL, keys);
  };
  const logFailure = (notification: Promise<void>) =>
    notification.catch((error: unknown) =>
      deps.log.warn({ reason: String(error) }, 'notifying other processes failed; they find the work by polling'),
    );
  return {
    work: (work) => {
      pending.push(workKey(work));
      timer ??= setTimeout(() => void logFailure(flush()), COALESCE_MS);
    },
    stop: async () => {
      clearTimeout(timer);
      await logFailure(flush());
    },
  };
}

/**
 * Makes a delivery of a locked webhook due, or all pending ones, ends the pause that its endpoint asked for, and lets the owner of
 * the shard send a probe at once. The first success closes the breaker; a failure counts as always.
 */
export async function retryNow(tx: Queryable, retried: Retried): Promise<void> {
  await makeDue(tx, retried);
  await endBackoff(tx, retried);
  await announceRetry(tx, retried);
}
