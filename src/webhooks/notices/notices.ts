/**
 * Notifies a store, and the developer of the app that created it, by mail of a failing or disabled webhook; and the developer of a key that
 * the store has replaced. The mails contain only the host of the url, no responses and no keys, because those may be credentials.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { type Mailer, letter, type Mail } from '#mail/mailer.ts';
import { entriesUpTo } from '#core/entries.ts';
import { formatDate } from '#hypermedia/date.ts';
import { shownName } from '#core/text.ts';
import { addressOfWebhook } from '../webhook-document.ts';
import { reasonOf } from '../history/history-documents.ts';
import { findNotifiedWebhook, type NotifiedWebhook } from './notices-sql.ts';
import { findAddress, findApp, type App } from './developer-sql.ts';

/** `warning`: halfway to auto-disable. `failures`, `gone` (410): the webhook was disabled for this reason. */
export type NoticeKind = 'warning' | 'failures' | 'gone';

/** Returns a time such as `2026-11-22 01:00 (Europe/Berlin)`. */
function shownTime(at: Date, timeZone: string): string {
  const date = formatDate(at, timeZone);
  return `${date.slice(0, 10)} ${date.slice(11, 16)} (${timeZone})`;
}

/** Returns the reason of the last failure; undefined for internal errors, which the store cannot fix. */
function lastOf({ outcome, responseCode }: NotifiedWebhook): string | undefined {
  const reason = outcome === 'internal' ? null : reasonOf({ outcome, responseCode });
  return reason === null ? undefined : `Last failure: ${reason.text}`;
}

const endpointOf = ({ url }: NotifiedWebhook): string => (url === null ? 'its endpoint' : new URL(url).host);

function failuresOf(webhook: NotifiedWebhook): string {
  const { consecutiveFailures, firstFailureAt, timeZone } = webhook;
  const since = firstFailureAt === null ? '' : ` since ${shownTime(firstFailureAt, timeZone)}`;
  const count = consecutiveFailures === null ? 'All attempts' : `${consecutiveFailures} consecutive attempts`;
  return [`${count} to deliver to ${endpointOf(webhook)} have failed${since}.`, lastOf(webhook)]
    .filter((sentence) => sentence !== undefined)
    .join(' ');
}

const AFTER_DISABLE = [
  'Nothing is sent to it any more: its pending deliveries have failed, and new events are not sent.',
  'When the endpoint works, enable the webhook again, and send the missed events by its action "recover".',
];

function bodyOf(webhook: NotifiedWebhook, about: NoticeKind, { now, deactivateAfterSeconds }: MailContext): string[] {
  const label = `the webhook "${shownName(webhook.name)}" of ${webhook.storeDomain}`;
  switch (about) {
    case 'warning': {
      const spanMs = deactivateAfterSeconds[webhook.retryProfile] * 1_000;
      const disableAt = new Date((webhook.firstFailureAt?.getTime() ?? 0) + spanMs);
      const earliest = disableAt > now ? `, at ${shownTime(disableAt, webhook.timeZone)} at the earliest` : '';
      return [
        `deliveries to ${label} are failing.`,
        failuresOf(webhook),
        `Deliveries are retried. If all attempts continue to fail, the webhook is disabled${earliest}.`,
      ];
    }
    case 'failures':
      return [`${label} was disabled because deliveries kept failing.`, failuresOf(webhook), ...AFTER_DISABLE];
    case 'gone':
      return [
        `${label} was disabled: ${endpointOf(webhook)} answered 410, which means that it is permanently gone.`,
        ...AFTER_DISABLE,
      ];
  }
}

type MailContext = {
  now: Date;
  baseUrl: string;
  authUrl: string;
  deactivateAfterSeconds: Readonly<Record<NotifiedWebhook['retryProfile'], number>>;
};

const mailTo = (to: string, subject: string, paragraphs: readonly string[]): Mail => ({
  ...letter(to, subject, paragraphs),
  isNotice: true,
});

const stateOf = (about: NoticeKind): string => (about === 'warning' ? 'is failing' : 'was disabled');

export function noticeMail(webhook: NotifiedWebhook, about: NoticeKind, context: MailContext): Mail {
  return mailTo(webhook.email, `Your webhook "${shownName(webhook.name)}" ${stateOf(about)}`, [
    ...bodyOf(webhook, about, context),
    'The webhook and its attempts:',
    addressOfWebhook(webhook.id, context.baseUrl),
  ]);
}

/** Returns the verified address of the app's developer; undefined if there is none, or if it is the address of the store. */
function developerOf({ app, email }: NotifiedWebhook): { to: string; app: App } | undefined {
  const to = app?.developer;
  return app && to && to.toLowerCase() !== email.toLowerCase() ? { to, app } : undefined;
}

/** Returns the mail to the developer of the app that created the webhook; undefined if the store gets the only one. */
export function developerMail(webhook: NotifiedWebhook, about: NoticeKind, context: MailContext): Mail | undefined {
  const { id } = webhook;
  const developer = developerOf(webhook);
  if (developer === undefined) return undefined;
  const { to, app } = developer;
  return mailTo(to, `A webhook of your app "${shownName(app.name)}" ${stateOf(about)}`, [
    ...bodyOf(webhook, about, context),
    `Your app created this webhook (${id}). Other webhooks of the app may have the same problem; you get at most one such mail an hour. All its webhooks:`,
    `${context.authUrl}/account/clients/${app.clientId}`,
  ]);
}

/** Returns the mail to the developer of the app about a key that the store has replaced; undefined as above. */
export function keyMail(
  webhook: NotifiedWebhook,
  { baseUrl, now }: Pick<MailContext, 'baseUrl' | 'now'>,
): Mail | undefined {
  const developer = developerOf(webhook);
  if (developer === undefined) return undefined;
  const { to, app } = developer;
  const { id, name, storeDomain, rotationEndsAt, timeZone } = webhook;
  const label = `the webhook "${shownName(name)}" of ${storeDomain}`;
  const what =
    rotationEndsAt !== null && rotationEndsAt > now
      ? `Its deliveries are signed with both keys until ${shownTime(rotationEndsAt, timeZone)}, and then only with the new one. Give your app the new key before: it is next_encryption_key of the webhook in the API.`
      : 'Its deliveries are signed only with the new key. Give your app this key: it is encryption_key of the webhook in the API.';
  return mailTo(to, `The key of a webhook of your app "${shownName(app.name)}" was replaced`, [
    `the store has replaced the key of ${label}, which your app created.`,
    what,
    'The webhook:',
    addressOfWebhook(id, baseUrl),
  ]);
}

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
