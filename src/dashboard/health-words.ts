/** The health of a webhook, in the words of the overview and of the page of the webhook. */
import { rangeText, rangeUpTo } from '#core/histogram.ts';
import type { Naming } from '#hypermedia/document.ts';
import { fixedForm, type Context } from '#hypermedia/html/form.ts';
import { hrefOf, addressWith } from '#hypermedia/html/links.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { NOT_ARRIVED_COUNTED_MAX } from '#webhooks/health/figures.ts';
import type { HealthView } from '#webhooks/health/health-document.ts';
import { actionOf, NOT_ARRIVED, nextTime } from './deliveries-page.ts';

type Stated = Pick<HealthView, 'state' | 'isActive' | 'inactiveReason' | 'notArrived'>;

/** Returns whether a person has disabled the webhook. */
export function isDisabledByPerson({ state, isActive, inactiveReason }: Omit<Stated, 'notArrived'>): boolean {
  return state === 'inactive' && !isActive && inactiveReason === null;
}

/**
 * Returns whether events did not arrive, or the webhook does not deliver, although a person expects that it does: what a person has disabled
 * is as it should be, whatever it missed.
 */
export function needsAttention(health: Stated): boolean {
  return !isDisabledByPerson(health) && (health.notArrived > 0 || health.state !== 'ok');
}

const notArrivedCount = (count: number): string => countWords(count, NOT_ARRIVED_COUNTED_MAX);

/** Returns how many events did not arrive: `5 events did not arrive`. */
export function notArrivedWords(count: number): string {
  return count === 1 ? '1 event did not arrive' : `${notArrivedCount(count)} events did not arrive`;
}

/** Renders the button that sends what did not arrive again; false if nothing can be sent. */
export function sendNotArrived(health: HealthView, context: Context): Markup | false {
  const { address, state, notArrived, notArrivedSince } = health;
  if (notArrived === 0 || notArrivedSince === null || state === 'inactive' || context.view.session === undefined)
    return false;
  const button = html`<button type="submit" class="quiet">
    ${notArrived === 1 ? 'Send it again' : `Send them again (${notArrivedCount(notArrived)})`}
  </button>`;
  return fixedForm(
    actionOf(address, 'recover'),
    { values: { only_failed: '1', since: notArrivedSince }, button },
    context,
  );
}

/** Returns the state in words, with its tone. */
export function stateWords(
  health: Omit<Stated, 'notArrived'> & Pick<HealthView, 'lastAttempt' | 'retrying'>,
): [words: string, tone: Tone] {
  switch (health.state) {
    case 'ok':
      if (health.retrying > 0) return ['Retrying', ''];
      // The last attempt failed before the webhook was enabled again.
      return health.lastAttempt === 'delivered' ? ['Delivering', 'fine'] : ['Not used yet', 'plain'];
    case 'failing':
      return ['Failing', 'broken'];
    case 'paused':
      return ['Paused', ''];
    case 'inactive':
      if (health.isActive) return ['Incomplete', 'broken'];
      if (health.inactiveReason === 'suspended') return ['Suspended', 'broken'];
      return isDisabledByPerson(health) ? ['Disabled', 'plain'] : ['Disabled by Halcyon', 'broken'];
  }
}

/** Renders the state of a webhook in a table, with what did not arrive. */
export function stateCell(health: HealthView, naming: Naming): Markup {
  const { notArrived } = health;
  return html`${badge(...stateWords(health))}
  ${notArrived > 0 && html` <a href="${notArrivedAddress(health, naming)}">${notArrivedWords(notArrived)}</a>`}`;
}

/** Why Halcyon has disabled a webhook, by its `inactive_reason`. */
const INACTIVE_REASONS: Readonly<Record<NonNullable<HealthView['inactiveReason']>, string>> = {
  failures: 'Halcyon disabled this webhook after too many consecutive failed attempts.',
  gone: 'Halcyon disabled this webhook because its endpoint answered 410: it no longer exists.',
  access_ended: 'Halcyon disabled this webhook because the app that created it no longer has access to the store.',
  suspended:
    'The operator of this service has suspended the store or the app of this webhook. The webhook is enabled again when the suspension ends; recover what it missed then.',
};

/** Returns a sentence about why the webhook needs attention. */
export function reasonOf(health: HealthView): string {
  const { state, reason, inactiveReason } = health;
  const words = notArrivedWords(health.notArrived);
  if (state === 'ok') return `${words}: their deliveries have failed, and there are no more automatic attempts.`;
  if (inactiveReason !== null) return INACTIVE_REASONS[inactiveReason];
  if (state === 'paused') return 'Your endpoint asked for a pause (Retry-After). Deliveries continue by themselves.';
  return reason ?? 'The last attempt failed.';
}

/** Returns the address of the events that did not arrive at a webhook, as many as its health counts. */
function notArrivedAddress({ address }: Pick<HealthView, 'address'>, naming: Naming): string {
  return addressWith(`${hrefOf(address, naming) ?? ''}/statuses`, Object.entries(NOT_ARRIVED));
}

/**
 * Returns the label and the address of what a person does next about a webhook that needs attention. A list has what the page counts:
 * the deliveries that wait, are retried, or did not arrive.
 */
export function remedyOf(
  { address, state, isActive, inactiveReason, notArrived, retrying }: HealthView,
  naming: Naming,
): [label: string, to: string] {
  const href = hrefOf(address, naming) ?? '';
  const deliveries = (filters: Readonly<Record<string, string>>): string =>
    addressWith(`${href}/statuses`, Object.entries(filters));
  if (state === 'paused') return ['See waiting deliveries', deliveries({ status: 'pending' })];
  if (state === 'ok' || (state === 'failing' && notArrived > 0))
    return ['See what did not arrive', notArrivedAddress({ address }, naming)];
  if (state === 'failing')
    return retrying > 0
      ? ['See what is retried', deliveries({ status: 'pending', 'attempts:greaterthan': '0' })]
      : ['See what failed', addressWith(`${href}/logs`, [['outcome:not', 'delivered']])];
  if (isActive) return ['Complete the settings', `${href}#change`];
  if (inactiveReason === 'suspended') return ['See the webhook', href];
  return [inactiveReason === 'access_ended' ? 'See how to reconnect' : 'Repair and enable', href];
}

/** Returns the range of response times that ends with this bound, such as `25–50 ms`; a dash without a response. */
export function responseTime(boundMs: number | null): string {
  return boundMs === null ? '–' : rangeText(rangeUpTo(boundMs));
}

/** Returns when the next attempt is; undefined without one. */
export function nextWords({ dateNext }: Pick<HealthView, 'dateNext'>, now: Date): Markup | string | undefined {
  return dateNext === null ? undefined : (nextTime({ dateNext }, now) ?? 'now');
}

const whole = new Intl.NumberFormat('en');

/** Returns a count with separators; `limit` is the number up to which the API counts. */
export function countWords(count: number, limit = Infinity): string {
  return count >= limit ? `${whole.format(limit)} or more` : whole.format(count);
}
