/** The advice on the page of a failing or disabled webhook: the cause, since when, and the next steps. */
import { formatDate } from '#hypermedia/date.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { Advice } from '#hypermedia/view.ts';
import { shardOf } from '#core/ids.ts';
import type { WebhookDeps } from '../webhook-access.ts';
import { addressOfWebhook, lackReason, stateOf } from '../webhook-document.ts';
import { reasonOf } from '../history/reason.ts';
import { findFailureState, type HealthRow, type FailureState } from './health-sql.ts';

type AdvisedWebhook = Pick<
  HealthRow,
  'id' | 'isActive' | 'inactiveReason' | 'lacks' | 'pausedUntil' | 'consecutiveFailures' | 'timeZone'
>;

const HOUR_MS = 3_600_000;

const shownAt = (at: Date, timeZone: string): Markup | undefined => shownDateOf(formatDate(at, timeZone));

/** Links to the forms on the page of the webhook, whose ids are the names of their actions. */
const linksOf = (address: string) => ({
  change: html`<a href="${address}#change">change this webhook</a>`,
  test: html`<a href="${address}#test">send a sample event</a>`,
  enable: html`<a href="${address}#enable">enable this webhook</a>`,
  recover: html`<a href="${address}#recover">recover what was missed</a>`,
});

const afterRepair = ({ test, enable, recover }: ReturnType<typeof linksOf>): Markup =>
  html`After the repair, ${test} to check that it works. Then ${enable}. Finally ${recover}: missed events are not sent
  automatically.`;

const accessEnded = ({ enable, recover }: ReturnType<typeof linksOf>): Markup =>
  html`Halcyon disabled this webhook because the app that created it no longer has access to the store. To enable it,
  connect the app again. Then ${enable}, and finally ${recover}.`;

function failures(
  { consecutiveFailures, firstFailureAt, outcome, responseCode }: FailureState,
  timeZone: string,
): Markup {
  const reason = outcome === null ? null : reasonOf({ outcome, responseCode });
  const many = consecutiveFailures === 1 ? 'One attempt' : `${consecutiveFailures} consecutive attempts`;
  return html`${many} failed${firstFailureAt !== null && html`, the first on ${shownAt(firstFailureAt, timeZone)}`}.
  ${reason !== null && html`Last failure: ${reason.text}`}`;
}

/**
 * Suggests the start of a recovery: an hour before the first failure, since events precede their attempts. Arrived events are not
 * resent.
 */
function sinceOf({ firstFailureAt, dateCreated }: FailureState, timeZone: string): Readonly<Record<string, string>> {
  if (firstFailureAt === null) return {};
  const since = new Date(Math.max(firstFailureAt.getTime() - HOUR_MS, dateCreated.getTime()));
  return { since: formatDate(since, timeZone) };
}

function paragraphsOf(
  webhook: AdvisedWebhook,
  trouble: FailureState,
  { now, address }: { now: Date; address: string },
): Markup[] {
  const { timeZone, pausedUntil } = webhook;
  const links = linksOf(address);
  const lack = lackReason(webhook);
  if (lack !== null) return [html`${lack} To add it, ${links.change}.`];
  switch (stateOf(webhook, now)) {
    case 'inactive':
      if (webhook.inactiveReason === 'access_ended') return [accessEnded(links)];
      return trouble.wasAutoDisabled
        ? [html`Halcyon disabled this webhook. ${failures(trouble, timeZone)}`, afterRepair(links)]
        : [html`This webhook is disabled: nothing is sent until you ${links.enable}.`];
    case 'paused':
      return pausedUntil === null
        ? []
        : [
            html`Your endpoint requested a pause (Retry-After): nothing is sent until ${shownAt(pausedUntil, timeZone)}.`,
          ];
    case 'failing':
      return [
        html`${failures(trouble, timeZone)}`,
        html`Retries continue automatically. See <a href="${address}/statuses">deliveries</a> for each request and
          response.`,
      ];
    case 'ok':
      return trouble.wasAutoDisabled
        ? [html`This webhook is enabled again. Events that it missed are not sent automatically: ${links.recover}.`]
        : [];
  }
}

/** Returns the advice for a webhook; undefined if none is needed. */
export async function adviceOfWebhook(
  { sql, config }: Pick<WebhookDeps, 'sql' | 'config'>,
  webhook: AdvisedWebhook,
  now: Date,
): Promise<Advice | undefined> {
  const trouble = await findFailureState(sql, shardOf(webhook.id), webhook.id);
  if (trouble === undefined) return undefined;
  // A path, because pages may have another host than the API.
  const address = new URL(addressOfWebhook(webhook.id, config.baseUrl)).pathname;
  const paragraphs = paragraphsOf(webhook, trouble, { now, address });
  return paragraphs.length === 0 ? undefined : { paragraphs, suggested: sinceOf(trouble, webhook.timeZone) };
}
