/**
 * The mails about failing and disabled webhooks. They contain only the host of the url, and no responses, because the rest may be
 * a credential.
 */
import { formatDate } from '#hypermedia/date.ts';
import type { Mail } from '#mail/mail.ts';
import { shownName } from '#mail/shown-name.ts';
import { addressOfWebhook } from '../document.ts';
import { reasonOf } from '../history/reason.ts';
import type { NotifiedWebhook } from './notices-sql.ts';

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
  return reason === null ? undefined : `Last failure: ${reason}`;
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

export function noticeMail(webhook: NotifiedWebhook, about: NoticeKind, context: MailContext): Mail {
  return {
    to: webhook.email,
    subject: `Your webhook "${shownName(webhook.name)}" ${about === 'warning' ? 'is failing' : 'was disabled'}`,
    text: `${[
      'Hello,',
      ...bodyOf(webhook, about, context),
      'The webhook and its attempts:',
      addressOfWebhook(webhook.id, context.baseUrl),
    ].join('\n\n')}\n`,
    isNotice: true,
  };
}

/** Returns the mail to the developer of the app that created the webhook; undefined if the store gets the only one. */
export function developerMail(webhook: NotifiedWebhook, about: NoticeKind, context: MailContext): Mail | undefined {
  const { app, email, id } = webhook;
  const to = app?.developer?.toLowerCase() === email.toLowerCase() ? null : app?.developer;
  if (!app || !to) return undefined;
  return {
    to,
    subject: `A webhook of your app "${shownName(app.name)}" ${about === 'warning' ? 'is failing' : 'was disabled'}`,
    text: `${[
      'Hello,',
      ...bodyOf(webhook, about, context),
      `Your app created this webhook (${id}). Other webhooks of the app may have the same problem; you get at most one such mail an hour. All its webhooks:`,
      `${context.authUrl}/account/clients/${app.clientId}`,
    ].join('\n\n')}\n`,
    isNotice: true,
  };
}
