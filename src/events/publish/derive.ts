/**
 * Derives lifecycle events and revenue terms from published subscriptions. Both compare a version with the previous one, which
 * is locked first.
 */
import { mapped } from '#catalog/catalog.ts';
import { timeZonesOf } from '#catalog/catalog-sql.ts';
import {
  stepsBetween,
  stepsOfDeletion,
  type Subscription,
  type Step,
  isShort,
  SHORT_LENGTH_MAX,
  changesBetween,
} from '#catalog/subscription-steps.ts';
import { termOf, type Term } from '#catalog/mrr.ts';
import type { Value } from '#hypermedia/document.ts';
import type { Queryable } from '#db/pool.ts';
import { isNumber, parseExact, type ExactNumber } from '#core/exact-number.ts';
import { dayOf } from '#core/ids.ts';
import { Problem } from '#core/problem.ts';
import type { PreviousVersions } from './publish-batch.ts';
import type { NewTerm } from './publish-sql.ts';
import { idAt, rowOf, byResource, inLockOrder, markStale, type Row, isAboutSubscriptions } from './rows.ts';
import type { PublishRequest } from './publish.ts';
import type { NewEvent } from './publish-request.ts';
import { derivingStores, lockBooks, lastTerms, openBooks, type Book, type LastTerm } from '../revenue-sql.ts';
import { embeddedUnder, isObject } from '#catalog/resource-document.ts';
import type { SubscriptionStep } from '#catalog/internal-types.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { IdAllocator } from '#db/partitions.ts';

type About = {
  subscriptionId: string;
  before: Subscription | undefined;
  after: Subscription;
  /** The later version as published, as JSON text. */
  published: string;
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
function stepEvent(id: number, step: Step, about: About): NewEvent {
  const { after, now, timeZone } = about;
  const resource: SubscriptionStep & { _embedded: { subscription: Subscription } } = {
    id,
    subscription_id: after['id'] ?? null,
    event: step,
    amount: amountOf(step, about),
    currency_code: findValue(after, 'currency_code', [...RELATIONS].toReversed()),
    ...changesOf(about),
    date_created: formatDate(now, timeZone),
    _embedded: { subscription: copyOf(parseExact(about.published) as Subscription) },
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

/** Returns the 409 for a published subscription_event in a store where Halcyon derives them. */
export function stepsDerivedProblem({ events, isArray }: Pick<PublishRequest, 'events' | 'isArray'>): Problem {
  const at = events.findIndex(({ type }) => type === 'subscription_event');
  const message =
    'subscription_event/created is derived from the versions of a subscription: to publish your own, set subscription_events of the store to "published"';
  const field = isArray === true ? `${at}.event` : 'event';
  return new Problem(409, { code: 'native_event', message, field });
}

export type Derived = {
  /** Derived events, after all other events of the batch. */
  rows: Row[];
  terms: NewTerm[];
};

const storesOf = (rows: readonly Row[]): number[] => [...new Set(rows.map(({ storeId }) => storeId))];

/** Returns the stores of the batch for which Halcyon derives subscription events, so that they cannot be published. */
export async function storesThatDerive(tx: Queryable, rows: readonly Row[]): Promise<ReadonlySet<number>> {
  const stores = storesOf(rows.filter(isAboutSubscriptions));
  return stores.length === 0 ? new Set() : derivingStores(tx, stores);
}

/** Locks the revenue books of the stores and creates missing ones. */
export async function booksOf(tx: Queryable, stores: readonly number[], now: Date): Promise<Map<number, Book>> {
  if (stores.length === 0) return new Map();
  let books = await lockBooks(tx, stores, now);
  if (books.length < stores.length) {
    await openBooks(tx, await timeZonesOf(tx, stores), now);
    books = await lockBooks(tx, stores, now);
  }
  return new Map(books.map((book) => [book.storeId, book]));
}

const keyOf = (storeId: number, id: string): string => `${storeId} ${id}`;

/** Returns the last terms of the subscriptions, whose versions are locked. */
async function lastTermsOf(tx: Queryable, groups: readonly Row[][]): Promise<ReadonlyMap<string, LastTerm>> {
  const firsts = groups.flatMap(([row]) => row ?? []);
  if (firsts.length === 0) return new Map();
  const terms = await lastTerms(
    tx,
    firsts.map(({ storeId, event }) => ({ storeId, id: event.resourceId })),
  );
  return new Map(terms.map((term) => [keyOf(term.storeId, term.id), term]));
}

type DerivedStep = { row: Row; event: (id: number) => NewEvent };
type PreviousState = {
  book: Book;
  derives: boolean;
  /** The body of the stored version; undefined if the subscription does not exist. */
  previous: string | undefined;
  newestDate: Date | undefined;
  term: LastTerm | undefined;
};

const isSameTerm = (before: Term, after: Term): boolean =>
  before.currency === after.currency &&
  before.monthly === after.monthly &&
  before.isActive === after.isActive &&
  before.startDay === after.startDay &&
  before.endDay === after.endDay;

/** Returns the day from which the term of a later version is valid; undefined if it does not differ from the last one. */
export function dayOfTerm(last: LastTerm | undefined, term: Term, book: Book): string | undefined {
  if (last === undefined) return book.day;
  if (isSameTerm(last, term)) return undefined;
  // The last term may be on a later day, if it was written in another time zone: terms are not written before it.
  return last.day > book.day ? last.day : book.day;
}

/** Returns the term of a subscription that is deleted: no revenue, in the currency that it had. */
function endedTerm({ currency }: Term): Term {
  return { currency, monthly: '0', isActive: false, startDay: null, endDay: null };
}

/** A version with the members that Halcyon understands. `isKnown`: the mapping has all of its values. */
type Understood = { resource: Subscription; isKnown: boolean };

function understood(body: string): Understood {
  const { resource, warnings } = mapped('subscription', parseExact(body) as Subscription);
  return { resource, isKnown: warnings.length === 0 };
}

/** Returns the steps between two versions; none if one of them has values that the mapping does not have. */
function knownSteps(before: Understood | undefined, after: Understood, { event }: Row, timeZone: string) {
  if (before?.isKnown === false || !after.isKnown) return { steps: [], differing: [] };
  if (event.kind === 'deletion') return stepsOfDeletion(before?.resource, timeZone);
  return stepsBetween(before?.resource, after.resource, { action: event.action, timeZone });
}

/** Derives the steps and the new term of one subscription. */
function deriveSubscription(
  group: readonly Row[],
  { book, derives, previous, newestDate, term: last }: PreviousState,
  now: Date,
) {
  const steps: DerivedStep[] = [];
  const first = previous === undefined ? undefined : understood(previous);
  let latest = first;
  /** The latest version in the group that is not its deletion. */
  let existing: Understood | undefined;
  let isDeleted = false;
  for (const { row, isStale } of markStale(group, newestDate)) {
    if (isStale) continue;
    const next = understood(row.event.body);
    if (derives) {
      const { timeZone } = book;
      const { resourceId: subscriptionId, body: published } = row.event;
      const derived = knownSteps(latest, next, row, timeZone);
      const { differing } = derived;
      const about = {
        subscriptionId,
        before: latest?.resource,
        after: next.resource,
        published,
        differing,
        now,
        timeZone,
      };
      for (const step of derived.steps) steps.push({ row, event: (id) => stepEvent(id, step, about) });
    }
    isDeleted = row.event.kind === 'deletion';
    latest = isDeleted ? undefined : next;
    if (!isDeleted && next.isKnown) existing = next;
  }
  const [row] = group;
  if (row === undefined || (existing === undefined && !isDeleted)) return { steps, terms: [] };
  const before = existing === undefined ? last : termOf(existing.resource, book.timeZone);
  const term = isDeleted ? before && endedTerm(before) : before;
  const day = term && dayOfTerm(last, term, book);
  const { storeId, event } = row;
  if (term === undefined || day === undefined) return { steps, terms: [] };
  return { steps, terms: [{ storeId, subscriptionId: event.resourceId, day, term }] };
}

/**
 * Derives events and terms in the transaction that writes `rows`, from the locked versions. An erased store has no book, so
 * nothing is derived, and its rows are not written.
 */
export async function derive(
  tx: Queryable,
  rows: readonly Row[],
  {
    allocateIds,
    now,
    previousVersions,
    deriving,
  }: { allocateIds: IdAllocator; now: Date; previousVersions: PreviousVersions; deriving: ReadonlySet<number> },
): Promise<Derived> {
  const subscriptions = rows.filter(({ event }) => event.type === 'subscription');
  const books = await booksOf(tx, storesOf(subscriptions), now);
  const groups = byResource(subscriptions.toSorted(inLockOrder));
  const lasts = await lastTermsOf(tx, groups);
  const steps: DerivedStep[] = [];
  const terms: NewTerm[] = [];
  for (const group of groups) {
    const [row] = group;
    const book = row && books.get(row.storeId);
    if (book === undefined || row === undefined) continue;
    const term = lasts.get(keyOf(row.storeId, row.event.resourceId));
    const before = {
      book,
      derives: deriving.has(row.storeId),
      previous: previousVersions.bodyOf(row),
      newestDate: previousVersions.newestDateOf(row),
      term,
    };
    const derivedHere = deriveSubscription(group, before, now);
    steps.push(...derivedHere.steps);
    terms.push(...derivedHere.terms);
  }
  const shards = steps.map(({ row }) => row.shard);
  const ids = await allocateIds(tx, { day: dayOf(now), shards }, 'inTransaction');
  const derived = steps.map(({ row, event }, index): Row => {
    const at = rows.length + index;
    const id = idAt(ids, index);
    return rowOf(event(id), row.storeId, { id, at, traceContext: row.traceContext });
  });
  return { rows: derived, terms };
}
