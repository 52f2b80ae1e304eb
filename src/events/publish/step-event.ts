/** Makes the subscription_event of a lifecycle step. */
import { embeddedUnder, isObject } from '#catalog/document.ts';
import type { SubscriptionStep } from '#catalog/internal-types.ts';
import { type Subscription, type Step, isShort, SHORT_LENGTH_MAX, changesBetween } from '#catalog/lifecycle/steps.ts';
import type { ExactNumber } from '#core/exact-number.ts';
import { formatDate } from '#hypermedia/date.ts';
import { isNumber, type Value } from '#hypermedia/document.ts';
import type { NewEvent } from './request.ts';

type About = {
  subscriptionId: string;
  before: Subscription | undefined;
  after: Subscription;
  /** Names of the properties that differ between the two versions. */
  differing: readonly string[];
  now: Date;
  timeZone: string;
};

/**
 * Limits the copy of the subscription in each step, since one version can produce several steps and a subscription may be as
 * large as an event. Of a larger one only strings, numbers and booleans are kept, and only the short ones.
 */
const COPY_MAX_BYTES = 16 * 1024;

const isSmall = (value: Value): boolean => Buffer.byteLength(JSON.stringify(value)) <= COPY_MAX_BYTES;

/** Returns the short properties, in order, until the limit is reached. */
function shortened(entries: readonly (readonly [string, Value])[]): Subscription {
  let bytes = 0;
  return Object.fromEntries(
    entries.filter(([name, value]) => {
      if (!isShort(value)) return false;
      bytes += Buffer.byteLength(JSON.stringify([name, value]));
      return bytes <= COPY_MAX_BYTES;
    }),
  );
}

/** Returns the subscription after the step, without embedded resources. */
const copyOf = ({ _embedded, _links, ...own }: Subscription): Subscription =>
  isSmall(own) ? own : shortened(Object.entries(own));

/** Returns the properties that differ, before and after; null for a first version. */
const changesOf = ({ before, after, ...about }: About) =>
  before === undefined ? { before: null, after: null } : changesBetween(before, after, about);

const RELATIONS = ['last_transaction', 'transaction_template'] as const;

/** Returns the value under a name in the subscription or in transactions embedded in it; null if there is none. */
function findValue(subscription: Subscription | undefined, name: string, relations: readonly string[]) {
  if (subscription === undefined) return null;
  const candidates = [subscription, ...relations.map((relation) => embeddedUnder(subscription, relation))];
  return candidates.flatMap((candidate) => (isObject(candidate) ? [candidate[name]] : [])).find(isNumberOrText) ?? null;
}

const isNumberOrText = (value: Value | undefined): value is number | ExactNumber | string =>
  isNumber(value) || (typeof value === 'string' && value !== '' && value.length <= SHORT_LENGTH_MAX);

/** Returns the billed amount, the amount past due, or the recovered amount; null for other steps or if unknown. */
function amountOf(step: Step, { before, after }: About): SubscriptionStep['amount'] {
  if (step === 'billing_success') return findValue(after, 'total_order', RELATIONS);
  if (step === 'billing_failure' || step === 'dunning') return findValue(after, 'past_due_amount', []);
  return step === 'recovered' ? findValue(before, 'past_due_amount', []) : null;
}

/**
 * Returns the event of a step. `id` is the id of both event and resource; the id of the subscription keeps the publisher's
 * type.
 */
export function stepEvent(id: number, step: Step, about: About): NewEvent {
  const { after, now, timeZone } = about;
  const resource: SubscriptionStep & { _embedded: { subscription: Subscription } } = {
    id,
    subscription_id: after['id'] ?? null,
    event: step,
    amount: amountOf(step, about),
    currency_code: findValue(after, 'currency_code', [...RELATIONS].toReversed()),
    ...changesOf(about),
    date_created: formatDate(now, timeZone),
    _embedded: { subscription: copyOf(after) },
  };
  return {
    type: 'subscription_event',
    action: 'created',
    resourceId: String(id),
    modifiedAt: null,
    body: JSON.stringify(resource),
    about: about.subscriptionId,
  };
}
