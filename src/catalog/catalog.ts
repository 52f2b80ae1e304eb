/** What a shop platform can tell us about: resources, their events, and the relations that can be zoomed into. */
import type { Relations } from '#hypermedia/zoom.ts';
import relations from './relations.json' with { type: 'json' };

const actions = {
  transaction: ['created', 'modified', 'captured', 'refunded', 'voided'],
  subscription: ['created', 'modified', 'cancelled'],
  customer: ['created', 'modified'],
  transaction_log: ['created'],
  changelog: ['created'],
  subscription_event: ['created'],
  subscription_mrr_snapshot: ['created'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type ResourceType = keyof typeof actions;

export const resourceTypes = Object.keys(actions) as readonly ResourceType[];

const isResourceType = (name: string): name is ResourceType => Object.hasOwn(actions, name);

/** The events of a resource that can be subscribed to, as `<resource>/<action>`. */
export const eventsOf = (type: ResourceType): readonly string[] => actions[type].map((action) => `${type}/${action}`);

/** The resource an event is of; undefined where the catalogue does not have the event. */
export const resourceOfEvent = (event: string): ResourceType | undefined => {
  const [type = '', action = ''] = event.split('/', 2);
  if (!isResourceType(type) || event !== `${type}/${action}`) return undefined;
  return (actions[type] as readonly string[]).includes(action) ? type : undefined;
};

/**
 * What a publisher may call a resource: 1 to 64 characters that an address can carry. Of `.` and `..` clients make another
 * address before they ask, and escaping does not help (WHATWG URL, dot segments).
 */
export const isResourceId = (id: string): boolean =>
  /^\P{Cc}{1,64}$/u.test(id) && id.isWellFormed() && id.trim() !== '' && !/^\.\.?$/.test(id);

/** Halcyon alone makes these, and mints their ids. Of a `subscription_event` each store says who makes it. */
export const isInternal = (type: ResourceType): boolean => type === 'changelog' || type === 'subscription_mrr_snapshot';

/** What a platform may publish. */
export const publishableEvents: readonly string[] = resourceTypes.filter((type) => !isInternal(type)).flatMap(eventsOf);

/** A resource or a relation in words: `subscription MRR snapshot`. */
export const wordsOf = (name: string): string => name.replaceAll('_', ' ').replace('mrr', 'MRR');

/** The same where nothing comes before it. */
export const titleOf = (name: string): string => name.charAt(0).toUpperCase() + wordsOf(name).slice(1);

/** The last part of a collection's address: the resource's plural. */
export const collectionOf = (type: ResourceType): string => `${type}s`;

/** Every collection by its name, and in words. */
export const collections: readonly { name: string; words: string }[] = resourceTypes.map((type) => ({
  name: collectionOf(type),
  words: wordsOf(collectionOf(type)),
}));

/** The resource whose collection has this name in an address. */
export const typeOfCollection = (name: string): ResourceType | undefined => {
  const type = name.slice(0, -1);
  return name.endsWith('s') && isResourceType(type) ? type : undefined;
};

/** The relations of a resource, as a tree: what `zoom` may name. */
export const relationsOf = (type: ResourceType): Relations => relations[type];

/** Whether a relation leads to many: its name is a plural then (`items`; not `customer`, not `default_billing_address`). */
export const isMany = (rel: string): boolean => /[^s]s$/.test(rel);
