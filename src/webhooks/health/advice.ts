/** What the page of a webhook that does not work says first: why, since when, and what to do next. */
import type { Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { Advice } from '#hypermedia/view.ts';
import { shardOf } from '#core/ids.ts';
import { lackReason, stateOf } from '../document.ts';
import { reasonOf } from '../history/reason.ts';
import { findTrouble, type HealthRow, type Trouble } from './health-sql.ts';

type Told = Pick<
  HealthRow,
  'id' | 'isActive' | 'inactiveReason' | 'lacks' | 'pausedUntil' | 'consecutiveFailures' | 'timeZone'
>;

const HOUR_MS = 3_600_000;

const shownAt = (at: Date, timeZone: string): Markup | undefined => shownDateOf(formatDate(at, timeZone));

const HOW_ON = html`<strong>Change this webhook</strong>: choose Yes for <em>Active</em>`;
const HOW_RECOVER = html`<strong>Recover what was missed</strong>`;

const ON_AGAIN = html`When it is mended: <strong>Send a sample event</strong> to see that it works. Then ${HOW_ON}. At
  the end ${HOW_RECOVER}, for what it missed is not sent by itself.`;

const ACCESS_ENDED = html`Halcyon switched this webhook off because the app that made it has no access to the store any
more: nothing is sent. To switch it on, connect the app again. Then ${HOW_ON}, and at the end ${HOW_RECOVER}.`;

const failures = (
  { consecutiveFailures, firstFailureAt, outcome, responseCode }: Trouble,
  timeZone: string,
): Markup => {
  const reason = outcome === null ? null : reasonOf({ outcome, responseCode });
  const many = consecutiveFailures === 1 ? 'One attempt' : `${consecutiveFailures} attempts in a row`;
  return html`${many} failed${firstFailureAt !== null && html`, the first on ${shownAt(firstFailureAt, timeZone)}`}.
  ${reason !== null && html`About the last one: ${reason}`}`;
};

/** Begins before the first failure, since what failed then had happened before; nothing is sent twice that has arrived. */
const sinceOf = ({ firstFailureAt, dateCreated }: Trouble, timeZone: string): Readonly<Record<string, string>> => {
  if (firstFailureAt === null) return {};
  const since = new Date(Math.max(firstFailureAt.getTime() - HOUR_MS, dateCreated.getTime()));
  return { since: formatDate(since, timeZone) };
};

const paragraphsOf = (webhook: Told, trouble: Trouble, now: Date): Markup[] => {
  const { timeZone, pausedUntil } = webhook;
  const lack = lackReason(webhook);
  if (lack !== null) return [html`${lack} <strong>Change this webhook</strong> below.`];
  switch (stateOf(webhook, now)) {
    case 'inactive':
      if (webhook.inactiveReason === 'access_ended') return [ACCESS_ENDED];
      return trouble.wasCondemned
        ? [html`Halcyon switched this webhook off by itself. ${failures(trouble, timeZone)}`, ON_AGAIN]
        : [html`This webhook is switched off: nothing is sent. To switch it on, ${HOW_ON}.`];
    case 'paused':
      return pausedUntil === null
        ? []
        : [html`Your endpoint asked for a pause: nothing is sent until ${shownAt(pausedUntil, timeZone)}.`];
    case 'failing':
      return [
        html`${failures(trouble, timeZone)}`,
        html`It is tried again by itself. <em>Deliveries</em> has what was sent and answered.`,
      ];
    case 'ok':
      return trouble.wasCondemned
        ? [html`It is on again. What it missed while it was off is not sent by itself: ${HOW_RECOVER}.`]
        : [];
  }
};

/** Undefined where there is nothing to say. */
export const adviceOfWebhook = async (sql: Sql, webhook: Told, now: Date): Promise<Advice | undefined> => {
  const trouble = await findTrouble(sql, shardOf(webhook.id), webhook.id);
  if (trouble === undefined) return undefined;
  const paragraphs = paragraphsOf(webhook, trouble, now);
  return paragraphs.length === 0 ? undefined : { paragraphs, suggested: sinceOf(trouble, webhook.timeZone) };
};
