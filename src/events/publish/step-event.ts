/** The subscription_event that tells of a step. */
import { embeddedUnder, isObject } from '#catalog/document.ts';
import type { Subscription } from '#catalog/lifecycle/facts.ts';
import type { Step } from '#catalog/lifecycle/steps.ts';
import { isShort, SHORT_LENGTH_MAX, toldBetween } from '#catalog/lifecycle/described.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import type { NewEvent } from './request.ts';

type About = {
  subscriptionId: string;
  before: Subscription | undefined;
  after: Subscription;
  /** The properties in which the two differ. */
  differing: readonly string[];
  now: Date;
  timeZone: string;
};

/**
 * A version can bring several steps, each with a copy of the subscription, which may be as large as an event is allowed to
 * be: of a larger one, properties that are no texts, numbers or truths are left out, and then the long ones.
 */
const COPY_MAX_BYTES = 16 * 1024;

const isSmall = (value: Value): boolean => Buffer.byteLength(JSON.stringify(value)) <= COPY_MAX_BYTES;

/** What is kept of those that are short, in their order, until there is enough. */
const shortened = (entries: readonly (readonly [string, Value])[]): Subscription => {
  let bytes = 0;
  return Object.fromEntries(
    entries.filter(([name, value]) => {
      if (!isShort(value)) return false;
      bytes += Buffer.byteLength(JSON.stringify([name, value]));
      return bytes <= COPY_MAX_BYTES;
    }),
  );
};

/** The subscription as it is after the step, without what is embedded in it. */
const copyOf = ({ _embedded, _links, ...own }: Subscription): Subscription =>
  isSmall(own) ? own : shortened(Object.entries(own));

/** What differed, as it was and as it is; null for a first version. */
const toldOf = ({ before, after, differing }: About) =>
  before === undefined ? { before: null, after: null } : toldBetween(before, after, differing);

const RELATIONS = ['last_transaction', 'transaction_template'] as const;

/** What the subscription or the transactions embedded in it say under a name; null where none does. */
const sought = (subscription: Subscription | undefined, name: string, relations: readonly string[]): Value => {
  if (subscription === undefined) return null;
  const places = [subscription, ...relations.map((relation) => embeddedUnder(subscription, relation))];
  return places.flatMap((place) => (isObject(place) ? [place[name]] : [])).find(isAmountOrWord) ?? null;
};

const isAmountOrWord = (value: Value | undefined): boolean =>
  typeof value === 'number' || (typeof value === 'string' && value !== '' && value.length <= SHORT_LENGTH_MAX);

/** What was billed, what is owed, or what was owed; null for other steps, and where nobody says. */
const amountOf = (step: Step, { before, after }: About): Value => {
  if (step === 'billing_success') return sought(after, 'total_order', RELATIONS);
  if (step === 'billing_failure' || step === 'dunning') return sought(after, 'past_due_amount', []);
  return step === 'recovered' ? sought(before, 'past_due_amount', []) : null;
};

/** `id` is the event's own, which the resource shares; that of the subscription is as the publisher wrote it. */
export const stepEvent = (id: number, step: Step, about: About): NewEvent => {
  const { after, now, timeZone } = about;
  const resource = {
    id,
    subscription_id: after['id'],
    event: step,
    amount: amountOf(step, about),
    currency_code: sought(after, 'currency_code', [...RELATIONS].toReversed()),
    ...toldOf(about),
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
};
