/**
 * Notifies a store, and the developer of the app that created it, by mail of a failing or disabled webhook; and the developer of a key that
 * the store has replaced.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { developerMail, keyMail, noticeMail, type NoticeKind, type MailContext } from './mails.ts';
import { findNotifiedWebhook, type NotifiedWebhook } from './notices-sql.ts';
import { findAddress, findApp } from './developer-sql.ts';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from '#core/entries.ts';

/** `epoch`: the epoch of the failures. `key`: the key was replaced. */
export type Notice = { shard: number; webhookId: number; epoch: number; about: NoticeKind | 'key' };

export type Notices = Running & { notify: (notice: Notice) => void };

const QUEUE_MAX = 1_000;
/** Delays between attempts to read the webhook of a notice; there is one more attempt than delays. */
const RETRY_DELAYS_MS: readonly number[] = [1_000, 10_000];

const fieldsOf = ({ webhookId, about }: Notice) => ({ webhook: webhookId, about });

/** Returns whether the notice still applies: a warning does not after a success or a disable, the others always do. */
const isStillTrue = (
  { isActive, epoch, isWarned }: Pick<NotifiedWebhook, 'isActive' | 'epoch' | 'isWarned'>,
  notice: Notice,
): boolean => notice.about !== 'warning' || (isActive && epoch === notice.epoch && isWarned === true);

/**
 * Creates the queue of notices. They are handled one by one, so that many failing webhooks use one database connection. The queue
 * is in memory: notices beyond 1,000 are logged and dropped, and a crash loses the queue.
 */
export function createNotices(
  deps: { sql: Sql; accounts: Sql; clock: Clock; log: Log; mailer: Mailer } & Omit<MailContext, 'now'>,
): Notices {
  const { sql, accounts, clock, log, mailer } = deps;
  const queue: Notice[] = [];
  const stopping = new AbortController();
  const limits = createNoticeLimits();
  let working: Promise<void> | undefined;

  const send = async (notice: Notice): Promise<void> => {
    const found = await findNotifiedWebhook(sql, notice);
    if (found === undefined || !isStillTrue(found, notice)) return;
    const email = found.sandboxOf === null ? found.email : await findAddress(accounts, found.sandboxOf);
    const webhook = { ...found, email, app: await findApp(accounts, found) };
    const [nowMs, context] = [clock.monotonicMs(), { ...deps, now: clock.now() }];
    const { about } = notice;
    if (about === 'key') {
      const mail = keyMail(webhook, context);
      if (mail !== undefined && limits.ofKeys(notice, webhook, nowMs)) mailer.send(mail);
      return;
    }
    if (webhook.email !== '') {
      if (limits.ofStore(notice, webhook, nowMs)) mailer.send(noticeMail(webhook, about, context));
      else log.info(fieldsOf(notice), 'webhook notice suppressed by the hourly limit');
    }
    const toDeveloper = developerMail(webhook, about, context);
    if (toDeveloper !== undefined && limits.ofDeveloper(notice, webhook, nowMs)) mailer.send(toDeveloper);
  };
  const handle = async (notice: Notice): Promise<void> => {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await send(notice);
      } catch (error) {
        const delayMs = stopping.signal.aborted ? undefined : RETRY_DELAYS_MS[attempt];
        if (delayMs === undefined)
          return log.error({ err: error, ...fieldsOf(notice) }, 'webhook notice failed; dropped');
        await wait(delayMs, undefined, { signal: stopping.signal, ref: false }).catch(() => {});
      }
    }
  };
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await handle(next);
    working = undefined;
  };

  return {
    notify: (notice) => {
      if (queue.length >= QUEUE_MAX || stopping.signal.aborted)
        return log.error(fieldsOf(notice), 'webhook notice dropped: queue full or process stopping');
      queue.push(notice);
      working ??= work();
    },
    stop: async () => {
      stopping.abort();
      await working;
    },
  };
}

const HOUR_MS = 3_600_000;
/** Against a webhook that is enabled or created again and again for an endpoint that answers 410. */
const STORE_MAILS_PER_HOUR = 100;
/** Each new key of a webhook is mailed. */
const APP_KEY_MAILS_PER_HOUR = 100;
const BUCKETS_MAX = 100_000;

/** Creates a token bucket per key, stored as the time when it is full again (generic cell rate algorithm). */
function createBuckets(mailsAnHour: number) {
  const fullAtMs = new LRUCache<string, number>(entriesUpTo(BUCKETS_MAX));
  return (key: string, nowMs: number): boolean => {
    const after = Math.max(fullAtMs.get(key) ?? nowMs, nowMs) + HOUR_MS / mailsAnHour;
    if (after > nowMs + HOUR_MS) return false;
    fullAtMs.set(key, after);
    return true;
  };
}

/** Returns whether the notice may be mailed, and counts it if so. */
type IsWithinLimit = (notice: Notice, webhook: NotifiedWebhook, nowMs: number) => boolean;
export type NoticeLimits = { ofStore: IsWithinLimit; ofDeveloper: IsWithinLimit; ofKeys: IsWithinLimit };

/**
 * Creates the limits per hour: of a store one mail per webhook and kind, and `STORE_MAILS_PER_HOUR`; of the developer of an app, whose
 * webhooks in all stores may fail at once, one per app and kind. Suppressed notices are still visible on the page of the webhook and in
 * the changelog. Each process counts separately.
 */
export function createNoticeLimits(): NoticeLimits {
  const [webhooks, stores, apps] = [createBuckets(1), createBuckets(STORE_MAILS_PER_HOUR), createBuckets(1)];
  const keys = createBuckets(APP_KEY_MAILS_PER_HOUR);
  return {
    ofStore: ({ about }, { id, storeId }, nowMs) => webhooks(`${id} ${about}`, nowMs) && stores(String(storeId), nowMs),
    ofDeveloper: ({ about }, { app }, nowMs) => app !== null && apps(`${app.clientId} ${about}`, nowMs),
    ofKeys: (_notice, { app }, nowMs) => app !== null && keys(app.clientId, nowMs),
  };
}
