/**
 * The catalog: resource types, their events, and their zoomable relations. The operator may declare more in a file (`own/events-file.ts`),
 * which a process adds at its start, before routes and schemas are made.
 */
import type { Fault } from '#core/problem.ts';
import type { Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import relations from './relations.json' with { type: 'json' };

/**
 * What an event that is no version of its resource is: `deletion` ends the resource, `notice` leaves it as it is, `erasure` is made by
 * Halcyon when a resource is erased. The body of each has only the id.
 */
export type BareKind = 'deletion' | 'notice' | 'erasure';

export type Occurrence = {
  /** When the event happens, in one sentence. */
  when: string;
  /** Absent if the event is a version of its resource. */
  kind?: BareKind;
  /** The first version of Halcyon with the event; of an event that the operator declares, what the file says. */
  since: string;
};

/** The events of each built-in resource type that webhooks can subscribe to, by action. */
const builtIn = {
  transaction: {
    created: {
      when: 'A transaction is created, such as by a checkout or by the billing of a subscription.',
      since: '0.1.0',
    },
    modified: { when: 'A transaction changes in a way that no other event describes.', since: '0.1.0' },
    captured: { when: 'A payment of a transaction is captured.', since: '0.1.0' },
    refunded: { when: 'A transaction is refunded, wholly or in part.', since: '0.1.0' },
    voided: { when: 'A transaction is voided before its payment is captured.', since: '0.1.0' },
    deleted: { when: 'The platform deletes a transaction.', since: '0.3.0', kind: 'deletion' },
  },
  subscription: {
    created: { when: 'A subscription is created.', since: '0.1.0' },
    modified: {
      when: 'A subscription changes, such as its frequency, its next date or an amount past due.',
      since: '0.1.0',
    },
    cancelled: { when: 'A subscription is cancelled: it gets an end date, or ends.', since: '0.1.0' },
    deleted: { when: 'The platform deletes a subscription.', since: '0.3.0', kind: 'deletion' },
  },
  customer: {
    created: { when: 'A customer is created.', since: '0.1.0' },
    modified: { when: 'A customer changes, such as a name, an address or an attribute.', since: '0.1.0' },
    deleted: { when: 'The platform deletes a customer.', since: '0.3.0', kind: 'deletion' },
    data_requested: {
      when: 'A customer asks which data is stored about them (GDPR, article 15).',
      since: '0.3.0',
      kind: 'notice',
    },
    erased: {
      when: 'The data of a customer is erased: erase your copies, too (GDPR, articles 17 and 19).',
      since: '0.3.0',
      kind: 'erasure',
    },
  },
  transaction_log: {
    created: {
      when: 'An operation on a transaction is logged, such as an authorization or a capture.',
      since: '0.1.0',
    },
  },
  changelog: {
    created: {
      when: 'The configuration of the store changes: a webhook, a member, an app or the store itself.',
      since: '0.1.0',
    },
  },
  app: {
    installed: {
      when: 'The store lets in an app that declares a webhook: the first user gives the app access to the store.',
      since: '0.1.0',
    },
    uninstalled: {
      when: 'An app that declares a webhook loses its access to the store, for whatever reason.',
      since: '0.1.0',
    },
    scopes_changed: {
      when: 'The scope of an app that declares a webhook changes in the store: the scopes of all its grants together.',
      since: '0.1.0',
    },
    store_erased: {
      when: 'The store of an app that declares a webhook is erased; no other webhook is sent this event.',
      since: '0.3.0',
    },
  },
  operator_event: {
    webhook_disabled: {
      when: 'Halcyon disables a webhook of any store: its deliveries kept failing, or its endpoint answered 410.',
      since: '0.3.0',
    },
    delivery_exhausted: {
      when: 'An hour has ended in which events failed for good to arrive at a webhook of any store; once per webhook.',
      since: '0.3.0',
    },
    app_installed: { when: 'An app gets its first access to a store that a member gives it.', since: '0.3.0' },
    app_uninstalled: { when: 'An app loses the last access to a store that a member gave it.', since: '0.3.0' },
    store_created: { when: 'A store is created.', since: '0.3.0' },
    store_suspended: { when: 'An operator suspends a store.', since: '0.3.0' },
  },
  subscription_event: {
    created: {
      when: 'A subscription takes a step of its life cycle, such as a billing or a cancellation.',
      since: '0.1.0',
    },
  },
  subscription_mrr_snapshot: {
    created: { when: 'A day has ended in the time zone of the store; missed days are caught up.', since: '0.1.0' },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Occurrence>>>>;

type BuiltInType = keyof typeof builtIn;

declare const declared: unique symbol;
/** A resource type that only the operator's file declares. */
type OwnType = string & { readonly [declared]: true };

export type ResourceType = BuiltInType | OwnType;

type Json = { readonly [name: string]: Value };

/** What the operator's file declares for a resource type. Events and relations of a built-in type are additional ones. */
export type Declaration = {
  type: string;
  events: ReadonlyMap<string, Occurrence>;
  relations: Relations;
  /** Null if the file gives none. */
  version: number | null;
  /** The name of the collection; absent for the type with an `s`. */
  plural?: string;
  /** Absent for built-in types, which have their own. */
  description?: { title: string; about: string };
  example?: Json;
  /** What publishes must match. */
  check?: { schema: Json; faultsOf: (body: string) => readonly Fault[] };
};

type Entry = {
  events: ReadonlyMap<string, Occurrence>;
  relations: Relations;
  declaration?: Declaration;
};

const builtInEntries: ReadonlyMap<string, Entry> = new Map(
  Object.entries(builtIn).map(([type, occurrences]): [string, Entry] => [
    type,
    {
      events: new Map(Object.entries<Occurrence>(occurrences)),
      relations: relations[type as BuiltInType],
    },
  ]),
);

export const builtInTypes = Object.keys(builtIn) as readonly BuiltInType[];

/** Returns the built-in events and relations of a type, without those of the operator; undefined for other names. */
export function builtInEntryOf(name: string): Omit<Entry, 'declaration'> | undefined {
  return builtInEntries.get(name);
}

let entries = builtInEntries;
const isResourceType = (name: string): name is ResourceType => entries.has(name);
let types: readonly ResourceType[] = [...entries.keys()].filter(isResourceType);
let typesByCollection: ReadonlyMap<string, ResourceType> = new Map(types.map((type) => [collectionOf(type), type]));

/** Replaces what the operator declares, for this process. */
export function declareResources(declarations: readonly Declaration[]): void {
  const all = new Map(builtInEntries);
  for (const declaration of declarations) {
    const { events, relations: own } = all.get(declaration.type) ?? {
      events: new Map<string, Occurrence>(),
      relations: {},
    };
    all.set(declaration.type, {
      events: new Map([...events, ...declaration.events]),
      relations: { ...own, ...declaration.relations },
      declaration,
    });
  }
  entries = all;
  types = [...entries.keys()].filter(isResourceType);
  typesByCollection = new Map(types.map((type) => [collectionOf(type), type]));
}

/**
 * A resource with what Halcyon must understand under the names that Halcyon knows. `isDeleted`: the resource has the platform's mark of a
 * deletion. `warnings`: values that the mapping does not have.
 */
export type Mapped = { resource: Json; isDeleted: boolean; warnings: readonly Fault[] };
export type Mapping = (resource: Json) => Mapped;

let mappings: ReadonlyMap<string, Mapping> = new Map();

/** Replaces the mappings of the operator by type, for this process. */
export function mapResources(all: ReadonlyMap<string, Mapping>): void {
  mappings = all;
}

/** Returns the types of resources that the operator maps. */
export function mappedTypes(): readonly string[] {
  return [...mappings.keys()];
}

/** Returns whether the operator maps resources of this type. */
export function isMapped(type: ResourceType): boolean {
  return mappings.has(type);
}

/** Returns a published resource as it is to be understood; the resource itself if the operator maps none of its type. */
export function mapped(type: ResourceType, resource: Json): Mapped {
  return mappings.get(type)?.(resource) ?? { resource, isDeleted: false, warnings: [] };
}

/** Returns what the operator's file declares for a resource type, or for a name that is no type. */
export function declarationOf(name: string): Declaration | undefined {
  return entries.get(name)?.declaration;
}

/** Returns all resource types, the built-in ones first. */
export function resourceTypes(): readonly ResourceType[] {
  return types;
}

/**
 * Returns the events of a resource type that webhooks can subscribe to, as `<resource>/<action>`. None for a type that the
 * operator no longer declares, which old rows may have.
 */
export function eventsOf(type: ResourceType): readonly string[] {
  return [...(entries.get(type)?.events.keys() ?? [])].map((action) => `${type}/${action}`);
}

/** Returns the events of all resource types. */
export function allEvents(): readonly string[] {
  return types.flatMap(eventsOf);
}

/** Returns the resource type of an event; undefined if the catalog does not contain the event. */
export function resourceOfEvent(event: string): ResourceType | undefined {
  const [type = '', action = ''] = event.split('/', 2);
  if (!isResourceType(type) || event !== `${type}/${action}`) return undefined;
  return entries.get(type)?.events.has(action) === true ? type : undefined;
}

/** Returns when each event of a resource type happens, by event. */
export function occurrencesOf(type: ResourceType): ReadonlyMap<string, Occurrence> {
  return new Map([...(entries.get(type)?.events ?? [])].map(([action, one]) => [`${type}/${action}`, one]));
}

/**
 * Returns whether a text is a valid resource id: 1 to 64 characters that a URL can contain. `.` and `..` are excluded because
 * clients resolve them as path segments even if they are escaped (WHATWG URL, dot segments).
 */
export function isResourceId(id: string): boolean {
  return /^\P{Cc}{1,64}$/u.test(id) && id.isWellFormed() && id.trim() !== '' && !/^\.\.?$/.test(id);
}

/** The type of the events for the operator, which are about all stores. Only webhooks of the platform store are sent them. */
export const OPERATOR_EVENT = 'operator_event';

/**
 * Returns whether only Halcyon publishes resources of this type and allocates their ids. For `subscription_event` this is a
 * setting of each store.
 */
export function isInternal(type: ResourceType): boolean {
  return type === 'changelog' || type === 'app' || type === OPERATOR_EVENT || type === 'subscription_mrr_snapshot';
}

/** The types about what the access of an app does not include: of `app` it sees what is about itself, of the other nothing. */
export const HIDDEN_FROM_APPS: readonly string[] = ['app', OPERATOR_EVENT];

/** Returns the types that the scopes of an app can name. */
export function scopedTypes(): readonly ResourceType[] {
  return types.filter((type) => type !== OPERATOR_EVENT);
}

/** The choices that only the forms of the platform store offer: the type and the events for the operator. */
export const OPERATOR_CHOICES: readonly string[] = [
  OPERATOR_EVENT,
  ...Object.keys(builtIn.operator_event).map((action) => `${OPERATOR_EVENT}/${action}`),
];

/** The action of the events that delete a resource. */
export const DELETED = 'deleted';

/** The action of the events that Halcyon makes when it erases a resource. */
export const ERASED = 'erased';

/** Returns whether the platform can publish that resources of this type are deleted. */
export function canBeDeleted(type: ResourceType): boolean {
  return bareKindOf(type, DELETED) === 'deletion';
}

/** Returns what the event is if its body has only the id of the resource; undefined for a version of the resource. */
export function bareKindOf(type: ResourceType, action: string): BareKind | undefined {
  return entries.get(type)?.events.get(action)?.kind;
}

/** Returns whether only Halcyon publishes this event, which is one of the catalog. */
export function isInternalEvent(type: ResourceType, action: string): boolean {
  return isInternal(type) || bareKindOf(type, action) === 'erasure';
}

/** Returns the events that the platform may publish. */
export function publishableEvents(): readonly string[] {
  return types.flatMap((type) =>
    eventsOf(type).filter((event) => !isInternalEvent(type, event.slice(type.length + 1))),
  );
}

/** Returns the name of a resource type or relation in words: `subscription MRR snapshot`. */
export function labelOf(name: string): string {
  return name.replaceAll('_', ' ').replace('mrr', 'MRR');
}

/** Returns the label of a name, capitalised: `Transaction log`. */
export function titleOf(name: string): string {
  return name.charAt(0).toUpperCase() + labelOf(name).slice(1);
}

/** Returns the scope that permits to read the resources of this type in one store. */
export function readScopeOf<Type extends ResourceType>(type: Type): `${Type}:read` {
  return `${type}:read`;
}

/** Returns the last path segment of a collection: the plural of the resource type. */
export function collectionOf(type: ResourceType): string {
  return entries.get(type)?.declaration?.plural ?? `${type}s`;
}

/** Returns all collections, with their names in words. `onlyIn`: the only store that has it, 0 for none. */
export function collections(platformStore = 0): readonly { name: string; words: string; onlyIn?: number }[] {
  return types.map((type) => ({
    name: collectionOf(type),
    words: labelOf(collectionOf(type)),
    ...(type === OPERATOR_EVENT && { onlyIn: platformStore }),
  }));
}

/** Returns the resource type of the collection with this path segment. */
export function typeOfCollection(name: string): ResourceType | undefined {
  return typesByCollection.get(name);
}

/** Returns the relations that are declared for a resource type, as a tree; none for a type that is no longer declared. */
export function relationsOf(type: ResourceType): Relations {
  return entries.get(type)?.relations ?? NO_RELATIONS;
}

/** Returns the resource type that a relation embeds, by its name: `customer`, `transactions`, `last_transaction`. */
export function typeOfRelation(rel: string): ResourceType | undefined {
  const named = types.filter((type) => [type, collectionOf(type)].some((name) => `_${rel}`.endsWith(`_${name}`)));
  return named.toSorted((a, b) => b.length - a.length)[0];
}

function zoomable(tree: Relations): Relations {
  const all = {};
  for (const [rel, nested] of Object.entries(tree)) {
    const type = typeOfRelation(rel);
    const below = type === undefined ? nested : { ...relationsOf(type), ...nested };
    Object.defineProperty(all, rel, { enumerable: true, get: () => zoomable(below) });
  }
  return all;
}

/**
 * Returns the relations of a resource type that `zoom` accepts: those that are declared, and below one that embeds a resource the
 * relations of its type. The tree has no end, because types embed each other; a reader limits the depth.
 */
export function zoomableOf(type: ResourceType): Relations {
  return zoomable(relationsOf(type));
}

const NO_RELATIONS: Relations = {};

/**
 * Returns whether a relation has many targets, which is when its name is a plural (`items`; not `customer`, not
 * `default_billing_address`).
 */
export function isMany(rel: string): boolean {
  return /[^s]s$/.test(rel);
}

/** Action of sample events, to which webhooks cannot subscribe. */
const TEST = 'test';
const TEST_PREFIX = `${TEST}:`;

/**
 * Returns the stored action of a sample event. A sample that is sent as `created` is stored as `test:created`, so that lists of
 * events and recoveries exclude it.
 */
export function testAction(action: string | null): string {
  return action === null ? TEST : TEST_PREFIX + action;
}

export function isTest(action: string | null): boolean {
  return action === TEST || action?.startsWith(TEST_PREFIX) === true;
}

/** Returns the action under which an event is sent. */
export function sentAction(action: string): string {
  return action.startsWith(TEST_PREFIX) ? action.slice(TEST_PREFIX.length) : action;
}
