/** Words between processes, by NOTIFY: new work for a shard's owner, webhooks and events that changed. Polling is the truth. */
import { listen } from '#db/listen.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { notify } from './delivery-sql.ts';

const WORK_CHANNEL = 'halcyon_work';
const WEBHOOK_CHANNEL = 'halcyon_webhook';
const EVENT_CHANNEL = 'halcyon_event';

export type LaneKey = { shard: number; webhookId: number };
/** A delivery that was committed. */
export type Work = LaneKey & { deliveryId: number };
/** Without a delivery (a predecessor of this version tells none) something of that webhook is in the table. */
export type AnnouncedWork = LaneKey & { deliveryId: number | undefined };
export type ErasedEvents = { shard: number; ids: readonly number[] };

/** A payload may have 8,000 bytes; a key has at most 37, and a comma. */
const KEYS_PER_NOTIFICATION = 200;
const COALESCE_MS = 5;

const workKey = ({ shard, webhookId, deliveryId }: Work): string => `${shard}:${webhookId}:${deliveryId}`;

const parseKeys = (payload: string): AnnouncedWork[] =>
  payload.split(',').flatMap((key) => {
    const [shard = NaN, webhookId = NaN, deliveryId] = key.split(':').map(Number);
    return Number.isInteger(shard) && Number.isInteger(webhookId) ? [{ shard, webhookId, deliveryId }] : [];
  });

const notifyAll = async (sql: Queryable, channel: string, keys: readonly (string | number)[]): Promise<void> => {
  for (let at = 0; at < keys.length; at += KEYS_PER_NOTIFICATION)
    await notify(sql, channel, keys.slice(at, at + KEYS_PER_NOTIFICATION).join(','));
};

/** Calls with whatever is announced; `onMissed` when words may have been missed, because the line was down or silent. */
export const listenForChanges = (
  sql: Sql,
  handlers: {
    onWork: (work: readonly AnnouncedWork[]) => void;
    onWebhook: (lane: LaneKey) => void;
    onEvents: (ids: readonly number[]) => void;
    onMissed: () => void;
  },
  silenceMs: number,
): Promise<Running> =>
  listen(
    sql,
    {
      [WORK_CHANNEL]: (payload) => handlers.onWork(parseKeys(payload)),
      [WEBHOOK_CHANNEL]: (payload) => parseKeys(payload).forEach(handlers.onWebhook),
      [EVENT_CHANNEL]: (payload) => handlers.onEvents(payload.split(',').map(Number)),
    },
    { onMissed: handlers.onMissed, silenceMs },
  );

/** New work that comes with a transaction: notification when it commits, and not at all if it does not. */
export const announceWork = (tx: Queryable, work: readonly Work[]): Promise<void> =>
  notifyAll(tx, WORK_CHANNEL, work.map(workKey));

/**
 * Webhooks that change with a transaction: notification when it commits. After the commit the word could be lost, and a lane that is
 * busy would go on by the old settings.
 */
export const announceChanged = (tx: Queryable, webhooks: readonly LaneKey[]): Promise<void> =>
  notifyAll(
    tx,
    WEBHOOK_CHANNEL,
    webhooks.map(({ shard, webhookId }) => `${shard}:${webhookId}`),
  );

/** Events of which something was erased, notification when it commits: nobody sends them from memory. */
export const announceErased = (tx: Queryable, { ids }: ErasedEvents): Promise<void> =>
  notifyAll(tx, EVENT_CHANNEL, ids);

export type Announcer = Running & {
  /** New work, notification at most once in a few milliseconds however often it is said. */
  work: (work: Work) => void;
};

export const createAnnouncer = (deps: { sql: Sql; log: Log }): Announcer => {
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
      deps.log.warn({ reason: String(error) }, 'other processes could not be notification; they look by themselves'),
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
};
