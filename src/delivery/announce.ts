/** Words between processes, by NOTIFY: new work for a shard's owner, webhooks and events that changed. Polling is the truth. */
import { listen } from '#database/listen.ts';
import type { Queryable, Sql } from '#database/pool.ts';
import type { Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { notify } from './queries.ts';

const WORK_CHANNEL = 'halcyon_work';
const WEBHOOK_CHANNEL = 'halcyon_webhook';
const EVENT_CHANNEL = 'halcyon_event';

export type LaneName = { shard: number; webhookId: number };
export type EventName = { shard: number; ids: readonly number[] };

/** A payload may have 8,000 bytes; a name has at most 20. */
const NAMES_AT_ONCE = 300;
const COALESCE_MS = 5;

const parseNames = (payload: string): LaneName[] =>
  payload.split(',').flatMap((name) => {
    const [shard = NaN, webhookId = NaN] = name.split(':').map(Number);
    return Number.isInteger(shard) && Number.isInteger(webhookId) ? [{ shard, webhookId }] : [];
  });

/** Calls with whatever is announced; the others when words may have been missed, because the line was down. */
export const listenForNews = async (
  sql: Sql,
  news: {
    onWork: (lane: LaneName) => void;
    onWorkMissed: () => void;
    onWebhook: (lane: LaneName) => void;
    onWebhooksMissed: () => void;
    onEvents: (ids: readonly number[]) => void;
    onEventsMissed: () => void;
  },
): Promise<Running> => {
  const listeners = await Promise.all([
    listen(sql, WORK_CHANNEL, (payload) => parseNames(payload).forEach(news.onWork), news.onWorkMissed),
    listen(sql, WEBHOOK_CHANNEL, (payload) => parseNames(payload).forEach(news.onWebhook), news.onWebhooksMissed),
    listen(sql, EVENT_CHANNEL, (payload) => news.onEvents(payload.split(',').map(Number)), news.onEventsMissed),
  ]);
  return {
    stop: async () => {
      await Promise.all(listeners.map((listener) => listener.stop()));
    },
  };
};

/** New work that comes with a transaction: told when it commits, and not at all if it does not. */
export const announceWork = async (tx: Queryable, lanes: readonly LaneName[]): Promise<void> => {
  const names = [...new Set(lanes.map(({ shard, webhookId }) => `${shard}:${webhookId}`))];
  for (let at = 0; at < names.length; at += NAMES_AT_ONCE)
    await notify(tx, WORK_CHANNEL, names.slice(at, at + NAMES_AT_ONCE).join(','));
};

/** Events of which something was erased, told when it commits: nobody sends them from memory. */
export const announceErased = async (tx: Queryable, { ids }: EventName): Promise<void> => {
  for (let at = 0; at < ids.length; at += NAMES_AT_ONCE)
    await notify(tx, EVENT_CHANNEL, ids.slice(at, at + NAMES_AT_ONCE).join(','));
};

export type Announcer = Running & {
  /** New work, told at most once in a few milliseconds however often it is said. */
  work: (lane: LaneName) => void;
  /** A webhook changed; resolves once it is told. */
  webhook: (lane: LaneName) => Promise<void>;
};

export const createAnnouncer = (deps: { sql: Sql; log: Log }): Announcer => {
  const pending = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  const flush = async () => {
    timer = undefined;
    const names = [...pending];
    pending.clear();
    for (let at = 0; at < names.length; at += NAMES_AT_ONCE) {
      await notify(deps.sql, WORK_CHANNEL, names.slice(at, at + NAMES_AT_ONCE).join(','));
    }
  };
  const quietly = (told: Promise<void>) =>
    told.catch((error: unknown) =>
      deps.log.warn({ reason: String(error) }, 'other processes could not be told; they look by themselves'),
    );
  return {
    work: ({ shard, webhookId }) => {
      pending.add(`${shard}:${webhookId}`);
      timer ??= setTimeout(() => void quietly(flush()), COALESCE_MS);
    },
    webhook: ({ shard, webhookId }) => quietly(notify(deps.sql, WEBHOOK_CHANNEL, `${shard}:${webhookId}`)),
    stop: async () => {
      clearTimeout(timer);
      await quietly(flush());
    },
  };
};
