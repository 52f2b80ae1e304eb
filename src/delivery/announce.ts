/** Words between processes, by NOTIFY: new work for a shard's owner, webhooks and events that changed. Polling is the truth. */
import { listen } from '#db/listen.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { notify } from './delivery-sql.ts';

const WORK_CHANNEL = 'halcyon_work';
const WEBHOOK_CHANNEL = 'halcyon_webhook';
const EVENT_CHANNEL = 'halcyon_event';

export type LaneName = { shard: number; webhookId: number };
/** A delivery that was committed. */
export type Work = LaneName & { deliveryId: number };
/** Without a delivery (a predecessor of this version tells none) something of that webhook is in the table. */
export type Heard = LaneName & { deliveryId: number | undefined };
export type EventName = { shard: number; ids: readonly number[] };

/** A payload may have 8,000 bytes; a name has at most 37, and a comma. */
const NAMES_AT_ONCE = 200;
const COALESCE_MS = 5;

const nameOf = ({ shard, webhookId, deliveryId }: Work): string => `${shard}:${webhookId}:${deliveryId}`;

const parseNames = (payload: string): Heard[] =>
  payload.split(',').flatMap((name) => {
    const [shard = NaN, webhookId = NaN, deliveryId] = name.split(':').map(Number);
    return Number.isInteger(shard) && Number.isInteger(webhookId) ? [{ shard, webhookId, deliveryId }] : [];
  });

const tell = async (sql: Queryable, channel: string, names: readonly (string | number)[]): Promise<void> => {
  for (let at = 0; at < names.length; at += NAMES_AT_ONCE)
    await notify(sql, channel, names.slice(at, at + NAMES_AT_ONCE).join(','));
};

/** Calls with whatever is announced; `onMissed` when words may have been missed, because the line was down or silent. */
export const listenForNews = (
  sql: Sql,
  news: {
    onWork: (work: readonly Heard[]) => void;
    onWebhook: (lane: LaneName) => void;
    onEvents: (ids: readonly number[]) => void;
    onMissed: () => void;
  },
  silenceMs: number,
): Promise<Running> =>
  listen(
    sql,
    {
      [WORK_CHANNEL]: (payload) => news.onWork(parseNames(payload)),
      [WEBHOOK_CHANNEL]: (payload) => parseNames(payload).forEach(news.onWebhook),
      [EVENT_CHANNEL]: (payload) => news.onEvents(payload.split(',').map(Number)),
    },
    { onMissed: news.onMissed, silenceMs },
  );

/** New work that comes with a transaction: told when it commits, and not at all if it does not. */
export const announceWork = (tx: Queryable, work: readonly Work[]): Promise<void> =>
  tell(tx, WORK_CHANNEL, work.map(nameOf));

/**
 * Webhooks that change with a transaction: told when it commits. After the commit the word could be lost, and a lane that is
 * busy would go on by the old settings.
 */
export const announceChanged = (tx: Queryable, webhooks: readonly LaneName[]): Promise<void> =>
  tell(
    tx,
    WEBHOOK_CHANNEL,
    webhooks.map(({ shard, webhookId }) => `${shard}:${webhookId}`),
  );

/** Events of which something was erased, told when it commits: nobody sends them from memory. */
export const announceErased = (tx: Queryable, { ids }: EventName): Promise<void> => tell(tx, EVENT_CHANNEL, ids);

export type Announcer = Running & {
  /** New work, told at most once in a few milliseconds however often it is said. */
  work: (work: Work) => void;
};

export const createAnnouncer = (deps: { sql: Sql; log: Log }): Announcer => {
  let pending: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = async () => {
    timer = undefined;
    const names = pending;
    pending = [];
    await tell(deps.sql, WORK_CHANNEL, names);
  };
  const quietly = (told: Promise<void>) =>
    told.catch((error: unknown) =>
      deps.log.warn({ reason: String(error) }, 'other processes could not be told; they look by themselves'),
    );
  return {
    work: (work) => {
      pending.push(nameOf(work));
      timer ??= setTimeout(() => void quietly(flush()), COALESCE_MS);
    },
    stop: async () => {
      clearTimeout(timer);
      await quietly(flush());
    },
  };
};
