/** The advice on the page of a failing or disabled webhook: the cause, since when, and the next steps. */
import type { Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { Advice } from '#hypermedia/view.ts';
import { shardOf } from '#core/ids.ts';
import { lackReason, stateOf } from '../document.ts';
import { reasonOf } from '../history/reason.ts';
import { findFailureState, type HealthRow, type FailureState } from './health-sql.ts';

type AdvisedWebhook = Pick<
  HealthRow,
  'id' | 'isActive' | 'inactiveReason' | 'lacks' | 'pausedUntil' | 'consecutiveFailures' | 'timeZone'
>;

const HOUR_MS = 3_600_000;

const shownAt = (at: Date, timeZone: string): Markup | undefined => shownDateOf(formatDate(at, timeZone));

const ENABLE = html`<strong>Change this webhook</strong>: choose Yes for <em>Active</em>`;
const RECOVER = html`<strong>Recover what was missed</strong>`;

const AFTER_REPAIR = html`After the repair: <strong>Send a sample event</strong> to check that it works. Then ${ENABLE}.
  Finally ${RECOVER}: missed events are not sent automatically.`;

const ACCESS_ENDED = html`Halcyon disabled this webhook because the app that created it no longer has access to the
store. To enable it, connect the app again. Then ${ENABLE}, and finally ${RECOVER}.`;

function failures(
  { consecutiveFailures, firstFailureAt, outcome, responseCode }: FailureState,
  timeZone: string,
): Markup {
  const reason = outcome === null ? null : reasonOf({ outcome, responseCode });
  const many = consecutiveFailures === 1 ? 'One attempt' : `${consecutiveFailures} consecutive attempts`;
  return html`${many} failed${firstFailureAt !== null && html`, the first on ${shownAt(firstFailureAt, timeZone)}`}.
  ${reason !== null && html`Last failure: ${reason}`}`;
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

function paragraphsOf(webhook: AdvisedWebhook, trouble: FailureState, now: Date): Markup[] {
  const { timeZone, pausedUntil } = webhook;
  const lack = lackReason(webhook);
  if (lack !== null) return [html`${lack} <strong>Change this webhook</strong> below.`];
  switch (stateOf(webhook, now)) {
    case 'inactive':
      if (webhook.inactiveReason === 'access_ended') return [ACCESS_ENDED];
      return trouble.wasAutoDisabled
        ? [html`Halcyon disabled this webhook. ${failures(trouble, timeZone)}`, AFTER_REPAIR]
        : [html`This webhook is disabled: nothing is sent. To enable it, ${ENABLE}.`];
    case 'paused':
      return pausedUntil === null
        ? []
        : [
            html`Your endpoint requested a pause (Retry-After): nothing is sent until ${shownAt(pausedUntil, timeZone)}.`,
          ];
    case 'failing':
      return [
        html`${failures(trouble, timeZone)}`,
        html`Retries continue automatically. See <em>Deliveries</em> for each request and response.`,
      ];
    case 'ok':
      return trouble.wasAutoDisabled
        ? [html`This webhook is enabled again. Events that it missed are not sent automatically: ${RECOVER}.`]
        : [];
  }
}

/** Returns the advice for a webhook; undefined if none is needed. */
export async function adviceOfWebhook(sql: Sql, webhook: AdvisedWebhook, now: Date): Promise<Advice | undefined> {
  const trouble = await findFailureState(sql, shardOf(webhook.id), webhook.id);
  if (trouble === undefined) return undefined;
  const paragraphs = paragraphsOf(webhook, trouble, now);
  return paragraphs.length === 0 ? undefined : { paragraphs, suggested: sinceOf(trouble, webhook.timeZone) };
}
