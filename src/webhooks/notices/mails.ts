/**
 * The mails about failing and disabled webhooks, and about new keys. They contain only the host of the url, no responses and no keys,
 * because those may be credentials.
 */
import { formatDate } from '#hypermedia/date.ts';
import { letter, type Mail } from '#mail/mail.ts';
import { shownName } from '#core/text.ts';
import { addressOfWebhook } from '../webhook-document.ts';
import { reasonOf } from '../history/history-documents.ts';
import type { NotifiedWebhook } from './notices-sql.ts';
import type { App } from './developer-sql.ts';

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

export type MailContext = {
  now: Date;
  baseUrl: string;
  authUrl: string;
  deactivateAfterSeconds: Readonly<Record<NotifiedWebhook['retryProfile'], number>>;
};

const notice = (to: string, subject: string, paragraphs: readonly string[]): Mail => ({
  ...letter(to, subject, paragraphs),
  isNotice: true,
});

const stateOf = (about: NoticeKind): string => (about === 'warning' ? 'is failing' : 'was disabled');

export function noticeMail(webhook: NotifiedWebhook, about: NoticeKind, context: MailContext): Mail {
  return notice(webhook.email, `Your webhook "${shownName(webhook.name)}" ${stateOf(about)}`, [
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
  return notice(to, `A webhook of your app "${shownName(app.name)}" ${stateOf(about)}`, [
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
  return notice(to, `The key of a webhook of your app "${shownName(app.name)}" was replaced`, [
    `the store has replaced the key of ${label}, which your app created.`,
    what,
    'The webhook:',
    addressOfWebhook(id, baseUrl),
  ]);
}
