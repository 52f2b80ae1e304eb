/** The health of a webhook, read from its document, in the words of the overview and of the page of the webhook. */
import { rangeText, rangeUpTo } from '#core/histogram.ts';
import { parseDate } from '#hypermedia/date.ts';
import type { Document, Naming, Property, Value } from '#hypermedia/document.ts';
import { hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { addressWith } from '#hypermedia/html/search.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { roughly } from './deliveries-page.ts';

export type ShownHealth = {
  name: string;
  /** The address of the webhook. */
  href: string;
  state: string;
  isActive: boolean;
  inactiveReason: string | null;
  reason: string | null;
  failingSince: string | null;
  pausedUntil: string | null;
  attempts: number;
  delivered: number;
  successRate: number | null;
  /** Upper bounds of the ranges of the median and of the 95th percentile. */
  medianMs: number | null;
  slowMs: number | null;
  trend: Property | undefined;
  pending: number;
  oldestPending: string | null;
  dateNext: string | null;
  /** The date of the last failure in the period. */
  lastFailure: string | null;
};

const textOf = (value: Value | undefined): string | null => (typeof value === 'string' ? value : null);
const numberOf = (value: Value | undefined): number | null => (typeof value === 'number' ? value : null);

/** Returns a value that the document of every webhook has; throws a TypeError without one. */
function present<T>(value: T | null | undefined, name: string): T {
  if (value === null || value === undefined) throw new TypeError(`The health of a webhook has no ${name}`);
  return value;
}

/** Returns the health that a document describes. */
export function healthOf(document: Document, naming: Naming): ShownHealth {
  const properties = new Map(document.properties.map((property) => [property.name, property]));
  const text = (name: string): string | null => textOf(properties.get(name)?.value);
  const number = (name: string): number | null => numberOf(properties.get(name)?.value);
  const [failures] = document.embedded;
  const lastFailure = failures?.documents[0]?.properties.find(({ name }) => name === 'date_last')?.value;
  return {
    name: present(text('name'), 'name'),
    href: present(hrefOf(present(linkTo(document, 'webhook'), 'link').href, naming), 'address'),
    state: present(text('state'), 'state'),
    isActive: text('is_active') === '1',
    inactiveReason: text('inactive_reason'),
    reason: text('reason'),
    failingSince: text('failing_since'),
    pausedUntil: text('paused_until'),
    attempts: present(number('attempts'), 'attempts'),
    delivered: present(number('delivered'), 'delivered'),
    successRate: number('success_rate'),
    medianMs: number('duration_p50'),
    slowMs: number('duration_p95'),
    trend: properties.get('success_trend'),
    pending: present(number('pending'), 'pending'),
    oldestPending: text('oldest_pending'),
    dateNext: text('date_next'),
    lastFailure: textOf(lastFailure),
  };
}

type Stated = Pick<ShownHealth, 'state' | 'isActive' | 'inactiveReason'>;

/** Returns whether a person has disabled the webhook, which needs no attention. */
export function isDisabledByPerson({ state, isActive, inactiveReason }: Stated): boolean {
  return state === 'inactive' && !isActive && inactiveReason === null;
}

/** Returns whether the webhook does not deliver although a person expects that it does. */
export function needsAttention(health: Stated): boolean {
  return health.state !== 'ok' && !isDisabledByPerson(health);
}

/** Returns the state in words, with its tone. */
export function stateWords(health: Stated & Pick<ShownHealth, 'delivered'>): [words: string, tone: Tone] {
  switch (health.state) {
    case 'ok':
      return health.delivered > 0 ? ['Delivering', 'fine'] : ['Ready', 'plain'];
    case 'failing':
      return ['Failing', 'broken'];
    case 'paused':
      return ['Paused', ''];
    default:
      if (health.isActive) return ['Incomplete', 'broken'];
      return isDisabledByPerson(health) ? ['Disabled', 'plain'] : ['Disabled by Halcyon', 'broken'];
  }
}

/** Why Halcyon has disabled a webhook, by its `inactive_reason`. */
const INACTIVE_REASONS: Readonly<Record<string, string>> = {
  failures: 'Halcyon disabled this webhook after too many consecutive failed attempts.',
  gone: 'Halcyon disabled this webhook because its endpoint answered 410: it no longer exists.',
  access_ended: 'Halcyon disabled this webhook because the app that created it no longer has access to the store.',
};

/** Returns a sentence about why the webhook needs attention. */
export function reasonOf({ state, reason, inactiveReason }: ShownHealth): string {
  if (inactiveReason !== null && Object.hasOwn(INACTIVE_REASONS, inactiveReason))
    return INACTIVE_REASONS[inactiveReason] ?? '';
  if (state === 'paused') return 'Your endpoint asked for a pause (Retry-After). Deliveries continue by themselves.';
  return reason ?? 'The last attempt failed.';
}

/** Returns the label and the address of what a person does next about a webhook that needs attention. */
export function remedyOf({ href, state, isActive, inactiveReason, pending }: ShownHealth): [label: string, to: string] {
  const deliveries = (filters: Readonly<Record<string, string>>): string =>
    addressWith(`${href}/statuses`, Object.entries(filters));
  if (state === 'paused') return ['See waiting deliveries', deliveries({ status: 'pending' })];
  if (state === 'failing') {
    const filters = pending > 0 ? { status: 'pending', 'attempts:greaterthan': '0' } : { status: 'failed' };
    return ['See what failed', deliveries(filters)];
  }
  if (isActive) return ['Complete the settings', `${href}#change`];
  return [inactiveReason === 'access_ended' ? 'See how to reconnect' : 'Repair and enable', href];
}

/** Returns the range of response times that ends with this bound, such as `25–50 ms`; a dash without a response. */
export function responseTime(boundMs: number | null): string {
  return boundMs === null ? '–' : rangeText(rangeUpTo(boundMs));
}

/** Returns when the next attempt is, such as `in 4 min`; undefined without one. */
export function nextWords({ dateNext }: Pick<ShownHealth, 'dateNext'>, now: Date): string | undefined {
  const at = dateNext === null ? undefined : parseDate(dateNext);
  if (at === undefined) return undefined;
  const waitsMs = at.getTime() - now.getTime();
  return waitsMs > 0 ? `in ${roughly(waitsMs)}` : 'now';
}

const whole = new Intl.NumberFormat('en');

/** Returns a count with separators; `limit` is the number up to which the API counts. */
export function countWords(count: number, limit = Infinity): string {
  return count >= limit ? `${whole.format(limit)} or more` : whole.format(count);
}
