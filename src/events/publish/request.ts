/** What a publish request says, checked: every fault is named after the member that is wrong, for arrays by its index. */
import { parseDate } from '#hypermedia/date.ts';
import { isInternal, isResourceId, resourceOfEvent, type ResourceType } from '#catalog/catalog.ts';
import type { Keys } from '#core/keys.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { isObject, judgeEmbedded, type JsonObject } from './embedded.ts';
import { judgeKeys, keysOf, readKeyOfEvent, type Key } from './key.ts';

export type EventLimits = { eventsPerRequest: number; eventLimitBytes: number; eventDepth: number };

/** One event to publish. `body` is the resource's JSON text, which is stored and rendered as it is. */
export type NewEvent = {
  type: ResourceType;
  action: string;
  resourceId: string;
  modifiedAt: Date | null;
  body: string;
  /** The id of the subscription that it was derived from; it is erased with that. */
  about?: string;
};

/** What stands one level below: of what is embedded, the copies themselves, neither the list they are in nor `_embedded`. */
const oneLevelBelow = (value: object): unknown[] =>
  Object.entries(value).flatMap(([name, child]: [string, unknown]) =>
    name === '_embedded' && isObject(child) ? Object.values(child).flat() : [child],
  );

/**
 * Embedded copies count as one level each, so that everything the catalogue knows can be published: as bare JSON the
 * options of an item of a subscription's template stand on the ninth.
 */
const isDeeperThan = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || oneLevelBelow(value).some((child) => isDeeperThan(child, levels - 1)));

/** An id is an integer or a string of 1–64 characters that an address can carry. */
const readId = (id: unknown): string | undefined => {
  if (typeof id === 'number') return Number.isSafeInteger(id) && id >= 0 ? String(id) : undefined;
  return typeof id === 'string' && isResourceId(id) ? id : undefined;
};

/** `date_modified` as the platform writes it, without an offset in UTC; null where it is no date. */
const readModifiedAt = (value: unknown): Date | null => (typeof value === 'string' ? (parseDate(value) ?? null) : null);

/**
 * In JSON text a name with quotes stands nowhere but after one of these two. Objects in JavaScript take this one for what they
 * are made of: the resource would lose it on its way to some readers, and others would believe it.
 */
const PROTOTYPE = /[{,]"__proto__":/;

const members = new Set(['event', 'resource', 'idempotency_key']);
/** So many of a kind are named: an event that consists of what is wrong is told no more than that. */
const NAMED_MAX = 10;

const INTERNAL = 'native_event';

/** `at` is the place of the event in an array, with a point: `3.`. */
const judgeRelations = (resource: JsonObject, at: string, faults: Fault[]): void => {
  let found = 0;
  judgeEmbedded(resource, 'resource', (field, message) => {
    found += 1;
    if (found <= NAMED_MAX) faults.push({ code: 'invalid_value', message: at + message, field: at + field });
  });
};

const readEvent = (value: unknown, at: string, limits: EventLimits, faults: Fault[]): NewEvent | undefined => {
  const before = faults.length;
  // Every message begins with the member that it is about, so with its place before it says which event is meant.
  const fail = (field: string, code: string, message: string) =>
    void faults.push({ code, message: at + message, field: at + field });
  if (!isObject(value)) {
    const field = at === '' ? 'body' : at.slice(0, -1);
    faults.push({ code: 'invalid_value', message: `${field} must be an object with event and resource`, field });
    return undefined;
  }
  const unknown = Object.keys(value).filter((one) => !members.has(one));
  for (const one of unknown.slice(0, NAMED_MAX)) fail(one, 'unknown_property', `${one} is not a member of an event`);
  const { event, resource } = value;
  const name = typeof event === 'string' ? event : '';
  const type = resourceOfEvent(name);
  if (type === undefined)
    fail('event', 'unknown_event', 'event must be one of the catalogue, such as transaction/created');
  else if (isInternal(type))
    fail('event', INTERNAL, `event: ${name} is written by Halcyon itself and cannot be published`);
  if (!isObject(resource)) {
    fail('resource', 'required', 'resource must be the object that the event is about');
    return undefined;
  }
  const resourceId = readId(resource['id']);
  if (resourceId === undefined) {
    fail(
      'resource.id',
      'invalid_value',
      'resource.id must be an integer from 0 to 2^53-1, or a string of 1 to 64 characters that is not "." or ".."',
    );
  }
  if (isDeeperThan(resource, limits.eventDepth)) {
    fail(
      'resource',
      'too_deep',
      `resource may be nested at most ${limits.eventDepth} levels deep, each embedded copy counting as one`,
    );
    return undefined;
  }
  judgeRelations(resource, at, faults);
  const body = JSON.stringify(resource);
  if (Buffer.byteLength(body) > limits.eventLimitBytes) {
    fail('resource', 'too_large', `resource must be at most ${limits.eventLimitBytes} bytes of JSON`);
  }
  if (PROTOTYPE.test(body)) {
    fail('resource', 'invalid_value', 'resource: __proto__ cannot be the name of a member, at whatever depth');
  }
  if (faults.length > before || type === undefined || resourceId === undefined) return undefined;
  const action = name.slice(type.length + 1);
  return { type, action, resourceId, modifiedAt: readModifiedAt(resource['date_modified']), body };
};

/** `header`: the idempotency key of the whole request. */
type PublishAsked = { limits: EventLimits; header: string | undefined; fingerprintKeys: Keys };

export type PublishInput = { events: NewEvent[]; keys: Key[]; isArray: boolean };

/**
 * One event or an array of them, and the idempotency keys they have. Throws a 400 with every fault found, or a 409 where
 * nothing is wrong but that Halcyon alone makes such events. `isArray` tells which form the answer takes.
 */
export const readPublish = (body: unknown, { limits, header, fingerprintKeys }: PublishAsked): PublishInput => {
  const isArray = Array.isArray(body);
  const list: readonly unknown[] = isArray ? body : [body];
  if (list.length === 0 || list.length > limits.eventsPerRequest) {
    const code = list.length === 0 ? 'required' : 'too_many';
    throw invalid({ code, message: `Send 1 to ${limits.eventsPerRequest} events at once`, field: 'body' });
  }
  const faults: Fault[] = [];
  const placeOf = (index: number): string => (isArray ? `${index}.` : '');
  const events = list.flatMap((value, index) => readEvent(value, placeOf(index), limits, faults) ?? []);
  const names = list.map((value, index) =>
    readKeyOfEvent(isObject(value) ? value['idempotency_key'] : undefined, `${placeOf(index)}idempotency_key`, faults),
  );
  judgeKeys(names, { header, isArray }, faults);
  if (faults.length > 0) throw new Problem(faults.every(({ code }) => code === INTERNAL) ? 409 : 400, faults);
  return { events, keys: keysOf(events, names, { header, isArray, fingerprintKeys }), isArray };
};
