/** Renders the button for all deliveries of a list: to retry pending ones, or to recover failed ones. */
import { dayOf, startOfDay } from '#core/ids.ts';
import { formatDate, parseDate } from '#hypermedia/date.ts';
import type { Action, Document, Naming } from '#hypermedia/document.ts';
import { fixedForm, type Context } from '#hypermedia/html/form.ts';
import { hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { html, type Markup } from '#hypermedia/markup.ts';

export type Parameters = readonly (readonly [name: string, value: string])[];

const SECOND_MS = 1_000;

/** Filters that the buttons imply. */
const IMPLIED: ReadonlySet<string> = new Set(['status', 'webhook_id']);
/** Filters of deliveries that are fields of a recovery, with the same values. */
const SHARED: ReadonlySet<string> = new Set(['event', 'resource_id', 'response_code', 'response_body']);
const [AFTER, BEFORE] = ['date_created:greaterthan', 'date_created:lessthan'];

/**
 * Returns the fields of a recovery of the failed deliveries that these filters choose; undefined if it cannot be limited to them.
 * Without a beginning it is that of the oldest events, which are kept for `retentionDays`.
 */
export function recoveryFields(
  filters: Parameters,
  { now, retentionDays }: { now: Date; retentionDays: number },
): Readonly<Record<string, string>> | undefined {
  const given = new Map(filters.filter(([name]) => !IMPLIED.has(name)));
  const after = parseDate(given.get(AFTER) ?? '');
  const until = given.get(BEFORE);
  if (given.has(AFTER) && after === undefined) return undefined;
  given.delete(AFTER);
  given.delete(BEFORE);
  if ([...given].some(([name, value]) => !SHARED.has(name) || value === '')) return undefined;
  // A recovery is of one kind of event, or of all.
  if (given.get('event')?.includes('*')) return undefined;
  const since = after === undefined ? startOfDay(dayOf(now) - retentionDays) : new Date(after.getTime() + SECOND_MS);
  return {
    only_failed: '1',
    since: formatDate(since, 'UTC'),
    ...(until !== undefined && { until }),
    ...Object.fromEntries(given),
  };
}

/** Returns the address of the webhook whose deliveries the list shows; undefined for a list of several. */
function webhookAddress(document: Document, naming: Naming, filters: Parameters): string | undefined {
  const chosen = Number(filters.find(([name]) => name === 'webhook_id')?.[1]);
  return linkTo(document, 'webhook')?.href ?? (chosen > 0 ? `${naming.baseUrl}/webhooks/${chosen}` : undefined);
}

const actionOf = (webhook: string, name: string): Action => ({
  name,
  title: '',
  method: 'POST',
  href: `${webhook}/${name}`,
  fields: [],
});

/** Renders the button for all deliveries of the list; false for a list of several states or without a session. */
export function bulkAction(
  { document, naming, view }: Context,
  filters: Parameters,
  context: { now: Date; retentionDays: number },
): Markup | false {
  const status = filters.find(([name]) => name === 'status')?.[1];
  if (view.session === undefined || (status !== 'failed' && status !== 'pending')) return false;
  const webhook = webhookAddress(document, naming, filters);
  if (webhook === undefined)
    return html`<p class="soft">
      Choose a webhook to ${status === 'failed' ? 'send these again' : 'retry these now'}.
    </p>`;
  if (status === 'pending') {
    const isWhole = filters.every(([name]) => IMPLIED.has(name));
    const button = html`<button type="submit" class="quiet">Retry pending deliveries of this webhook now</button>
      ${!isWhole && html`<p class="soft">Not only those that are shown here.</p>`}`;
    return fixedForm(actionOf(webhook, 'retry_pending'), { values: {}, button }, { document, naming, view });
  }
  const values = recoveryFields(filters, context);
  if (values === undefined)
    return html`<p><a href="${hrefOf(webhook, naming) ?? ''}#recover">Send what failed again …</a></p>`;
  const button = html`<button type="submit" class="quiet">Send these again</button>
    <p class="soft">
      Except events that have been delivered or are pending, test deliveries, and events that the webhook does not
      subscribe to.
    </p>`;
  return fixedForm(actionOf(webhook, 'recover'), { values, button }, { document, naming, view });
}
