/** Validates a publish request; each fault names the invalid member, with its index in an array. */
import { isNumber } from '#core/exact-number.ts';
import { isScalar, type Value } from '#hypermedia/document.ts';
import { isLocalDate, parseDate } from '#hypermedia/date.ts';
import {
  bareKindOf,
  canBeDeleted,
  DELETED,
  mapped,
  isMapped,
  mappedTypes,
  declarationOf,
  isInternal,
  isInternalEvent,
  isResourceId,
  resourceOfEvent,
  resourceTypes,
  type BareKind,
  type Mapped,
  type ResourceType,
  publishableEvents,
} from '#catalog/catalog.ts';
import { NO_CURRENCY, termOf } from '#catalog/mrr.ts';
import { isObject, parentIn, withoutPrefix, type JsonObject } from '#catalog/resource-document.ts';
import type { Keys } from '#core/keys.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { validateKeys, keysOf, readKeyOfEvent, type Key } from './key.ts';
import { Type } from 'typebox';
import { closedObject, clearableText } from '#http/inputs.ts';
import type { InputDescription } from '#http/operation.ts';

/** Serializers write "nothing embedded" in several forms: some languages encode an empty map as an empty list. */
const isAbsent = (value: Value | undefined): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

/** Called with the path and the message of each fault. */
type Report = (field: string, message: string) => void;

/**
 * Validates what a published resource embeds under `_embedded`: relations with copies of other resources, which `zoom` selects.
 * Reports an `_embedded` that contains no relations, and a relation that occurs under two names, of which readers would find
 * only one. `at` is the path of `copy`.
 */
function validateEmbedded(copy: JsonObject, at: string, report: Report): void {
  const all = copy['_embedded'];
  if (isAbsent(all)) return;
  const place = `${at}._embedded`;
  if (!isObject(all)) {
    report(place, `${place} must be an object of relations, each with a resource or a list of them`);
    return;
  }
  const seen = new Set<string>();
  for (const [key, value] of Object.entries(all)) {
    const [relation, field] = [withoutPrefix(key), `${place}.${key}`];
    if (seen.has(relation)) report(field, `${field}: ${relation} is embedded twice, with and without a prefix`);
    seen.add(relation);
    const copies = Array.isArray(value) ? (value as readonly Value[]) : [value];
    for (const [index, one] of copies.entries())
      if (isObject(one)) validateEmbedded(one, Array.isArray(value) ? `${field}.${index}` : field, report);
  }
}

/** `file`: EVENTS_FILE, if there is one. */
export type EventLimits = {
  eventsPerRequest: number;
  eventLimitBytes: number;
  eventDepth: number;
  file?: { path: string } | undefined;
};

/** One event to publish. `body` is the resource's JSON text, which is stored and rendered as it is. */
export type NewEvent = {
  type: ResourceType;
  action: string;
  resourceId: string;
  modifiedAt: Date | null;
  /** True if `modifiedAt` is in the future, and therefore compared with no other date. */
  isAhead?: true;
  body: string;
  /** Absent if the event is a version of its resource; otherwise its body has only the id. */
  kind?: BareKind;
  /** The date of a deletion that has none itself: versions that are dated earlier do not bring the resource back. */
  endedAt?: Date;
  /** Values that are accepted, and probably wrong. */
  warnings?: readonly Fault[];
  /** What the resource belongs to, where that is a text or a number; the database reads it from the body if absent. */
  parentId?: string;
  /** Id of the subscription that the event was derived from; both are erased together. */
  about?: string;
};

/** Returns the values one level below; for `_embedded` these are the embedded copies themselves. */
const oneLevelBelow = (value: object): Value[] =>
  Object.entries(value).flatMap(([name, child]: [string, Value]) =>
    name === '_embedded' && isObject(child) ? Object.values(child).flat() : [child],
  );

/**
 * Returns whether the value is nested deeper. An embedded copy counts as one level, so that everything in the catalog can be
 * published: as plain JSON the options of an item of a subscription's template are on the ninth level.
 */
const isDeeperThan = (value: Value, levels: number): boolean =>
  !isScalar(value) && (levels === 0 || oneLevelBelow(value).some((child) => isDeeperThan(child, levels - 1)));

const INTEGER = /^\d{1,64}$/;

/** Returns the id as text if it is an integer of up to 64 digits or a string of 1–64 characters that a URL can contain. */
function readId(id: unknown): string | undefined {
  if (isNumber(id)) return INTEGER.test(String(id)) ? String(id) : undefined;
  return typeof id === 'string' && isResourceId(id) ? id : undefined;
}

/**
 * In JSON text a quoted name follows one of these two characters. JavaScript objects treat this name as their prototype, so
 * some readers would lose the member and others would act on it.
 */
const PROTOTYPE = /[{,]"__proto__":/;

const members = new Set(['event', 'resource', 'idempotency_key']);
/** Limits the faults of one kind that are reported for an event. */
const REPORTED_MAX = 10;

/** Returns the events of the resource type that the name begins with, or where to find all. */
function choicesOf(name: string, eventsFilePath: string | undefined): string {
  const type = resourceTypes().find((one) => name.startsWith(`${one}/`) && !isInternal(one));
  if (type !== undefined)
    return publishableEvents()
      .filter((event) => event.startsWith(`${type}/`))
      .join(', ');
  const file =
    eventsFilePath === undefined
      ? 'the operator can declare more in EVENTS_FILE'
      : `the operator declares more in EVENTS_FILE, which is "${eventsFilePath}"`;
  return `the catalogue, such as transaction/created; ${file}`;
}

const INTERNAL = 'native_event';

/** `at` is the position of the event in an array, with a dot: `3.`. */
function validateRelations(resource: JsonObject, at: string, faults: Fault[]): void {
  let count = 0;
  validateEmbedded(resource, 'resource', (field, message) => {
    count += 1;
    if (count <= REPORTED_MAX) faults.push({ code: 'invalid_value', message: at + message, field: at + field });
  });
}

/** Compares a resource with the schema that the operator declares for its type, if any. */
function validateSchema(type: ResourceType, body: string, at: string, faults: Fault[]): void {
  const found = declarationOf(type)?.check?.faultsOf(body) ?? [];
  for (const { code, message, field } of found.slice(0, REPORTED_MAX))
    faults.push({ code, message: at + message, ...(field !== undefined && { field: at + field }) });
}

/** Clocks of publishers may be ahead by this much. */
const AHEAD_MAX_MS = 3_600_000;

/** Returns null for a resource without `date_modified`; undefined for a value that is no date. */
function readModifiedAt(value: unknown, timeZone: string): Date | null | undefined {
  if (value === undefined || value === null) return null;
  return typeof value === 'string' ? parseDate(value, timeZone) : undefined;
}

/** `timeZone`: of the store, for dates without an offset. */
type EventContext = { limits: EventLimits; timeZone: string; now: Date };

/** Where the faults of an item of a request are reported. */
export type FaultReporter = {
  /** Each message begins with the member, so its position before it identifies the item. */
  fail: (field: string, code: string, message: string) => void;
  /** The position of the item in an array, with a dot: `3.`; empty without an array. */
  at: string;
  faults: Fault[];
};

/** Returns the reporter of the faults of one item. */
export function faultsAt(at: string, faults: Fault[]): FaultReporter {
  const fail = (field: string, code: string, message: string) =>
    void faults.push({ code, message: at + message, field: at + field });
  return { fail, at, faults };
}

/** Reports the members of an item that are not known. */
export function refuseMembers(
  item: JsonObject,
  known: ReadonlySet<string>,
  what: string,
  { fail }: FaultReporter,
): void {
  const unknown = Object.keys(item).filter((one) => !known.has(one));
  for (const one of unknown.slice(0, REPORTED_MAX)) fail(one, 'unknown_property', `${one} is not a member of ${what}`);
}

/** A version of a resource as the platform sends it. */
export type SentVersion = Omit<NewEvent, 'action' | 'about'>;

/** Returns how a resource is to be understood. A mapping of one that is refused for its size would take long. */
function seenAs(type: ResourceType | undefined, resource: JsonObject, { eventLimitBytes }: EventLimits): Mapped {
  const isRead =
    type !== undefined && (!isMapped(type) || Buffer.byteLength(JSON.stringify(resource)) <= eventLimitBytes);
  return isRead ? mapped(type, resource) : { resource, isDeleted: false, warnings: [] };
}

/** A version without faults, and how the resource is to be understood. */
type ReadVersion = { version: SentVersion; seen: Mapped };

/**
 * Reads the member `resource` of an item; undefined if it has faults, or the type is undefined because the item has. A local
 * `date_modified` is in the time zone of the store. With `isBare` the body has only the id.
 */
export function readVersion(
  type: ResourceType | undefined,
  resource: unknown,
  { limits, timeZone, now, isBare }: EventContext & { isBare?: boolean },
  { fail, at, faults }: FaultReporter,
): ReadVersion | undefined {
  const before = faults.length;
  if (!isObject(resource)) {
    fail('resource', 'required', 'resource must be an object: the complete resource');
    return undefined;
  }
  const seen = seenAs(type, resource, limits);
  const { id: ownId, date_modified: ownDate } = seen.resource;
  const resourceId = readId(ownId);
  if (resourceId === undefined) {
    fail(
      'resource.id',
      'invalid_value',
      'resource.id must be an integer of 1 to 64 digits, or a string of 1 to 64 characters that is not "." or ".."',
    );
  }
  const modifiedAt = readModifiedAt(ownDate, timeZone);
  if (modifiedAt === undefined) {
    fail(
      'resource.date_modified',
      'invalid_value',
      'resource.date_modified must be a date such as 2026-11-20T16:05:03+0000, or null if the resource has none',
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
  validateRelations(resource, at, faults);
  const isWithoutData = isBare === true || (seen.isDeleted && type !== undefined && canBeDeleted(type));
  const body = JSON.stringify(isWithoutData ? { id: ownId } : resource);
  if (Buffer.byteLength(body) > limits.eventLimitBytes) {
    fail('resource', 'too_large', `resource must be at most ${limits.eventLimitBytes} bytes of JSON`);
  }
  if (PROTOTYPE.test(body)) {
    fail('resource', 'invalid_value', 'resource: __proto__ cannot be the name of a member at any depth');
  }
  if (faults.length > before || type === undefined || resourceId === undefined || modifiedAt === undefined)
    return undefined;
  if (!isWithoutData) validateSchema(type, body, at, faults);
  if (faults.length > before) return undefined;
  const isAhead = modifiedAt !== null && modifiedAt.getTime() > now.getTime() + AHEAD_MAX_MS;
  const parentId = isWithoutData ? undefined : parentIn(type, resource);
  const parent = parentId === undefined ? {} : { parentId };
  return { version: { type, resourceId, modifiedAt, ...(isAhead && { isAhead }), ...parent, body }, seen };
}

const AHEAD: Fault = {
  code: 'ahead',
  message: 'resource.date_modified is more than an hour in the future: it is compared with no other date',
  field: 'resource.date_modified',
};

/** Returns the warnings about a version without faults: values that are accepted, and probably wrong. */
export function warningsOf({ version: { type, isAhead }, seen }: ReadVersion): Fault[] {
  const warnings = [...seen.warnings];
  const warn = (name: string, code: string, message: string): void => {
    const field = `resource.${name}`;
    warnings.push({ code, message: `${field} ${message}`, field });
  };
  if (isAhead === true) warnings.push(AHEAD);
  if (type !== 'subscription') return warnings;
  // The activity and the amount do not depend on the time zone.
  const { isActive, monthly, currency } = termOf(seen.resource, 'UTC');
  if (isActive && monthly === '0')
    warn(
      'frequency',
      'no_revenue',
      'and the amount of transaction_template give no recurring revenue: correct them if this subscription has some',
    );
  else if (isActive && currency === NO_CURRENCY)
    warn(
      'currency_code',
      'no_currency',
      'is no ISO 4217 code, also in transaction_template: the revenue has no currency',
    );
  return warnings;
}

function readEvent(value: unknown, at: string, context: EventContext, faults: Fault[]): NewEvent | undefined {
  const before = faults.length;
  const item = faultsAt(at, faults);
  if (!isObject(value)) {
    const field = at === '' ? 'body' : at.slice(0, -1);
    faults.push({ code: 'invalid_value', message: `${field} must be an object with event and resource`, field });
    return undefined;
  }
  refuseMembers(value, members, 'an event', item);
  const { event, resource } = value;
  const name = typeof event === 'string' ? event : '';
  const type = resourceOfEvent(name);
  if (type === undefined)
    item.fail('event', 'unknown_event', `event must be one of ${choicesOf(name, context.limits.file?.path)}`);
  const action = type === undefined ? '' : name.slice(type.length + 1);
  if (type !== undefined && isInternalEvent(type, action))
    item.fail('event', INTERNAL, `event: ${name} is written by Halcyon itself and cannot be published`);
  const kind = type && bareKindOf(type, action);
  const read = readVersion(type, resource, { ...context, isBare: kind !== undefined }, item);
  if (read === undefined || type === undefined || faults.length > before) return undefined;
  const { version, seen } = read;
  if (kind === 'notice') return { ...version, action, kind, modifiedAt: null };
  if (kind === 'deletion' || (seen.isDeleted && canBeDeleted(type))) {
    // A date in the future is compared with no other date, so the deletion has the date of its publication.
    const isUndated = version.modifiedAt === null || version.isAhead === true;
    const dates = isUndated ? { modifiedAt: null, endedAt: context.now } : {};
    const warned = version.isAhead === true ? { warnings: [AHEAD] } : {};
    return { ...version, action: DELETED, kind: 'deletion', ...dates, ...warned };
  }
  const warnings = warningsOf(read);
  return warnings.length === 0 ? { ...version, action } : { ...version, action, warnings };
}

/** `header`: the idempotency key of the whole request. */
type ReadPublishOptions = EventContext & { header: string | undefined; fingerprintKeys: Keys };

export type PublishInput = { events: NewEvent[]; keys: Key[]; isArray: boolean };

/** Returns whether the body may have a date of modification without an offset. */
export function needsTimeZone(body: unknown): boolean {
  // A mapped date may be in any member.
  if (mappedTypes().length > 0) return true;
  const list: readonly unknown[] = Array.isArray(body) ? body : [body];
  return list.some((one) => {
    const resource = isObject(one) ? one['resource'] : undefined;
    const written = isObject(resource) ? resource['date_modified'] : undefined;
    return typeof written === 'string' && isLocalDate(written);
  });
}

/**
 * Reads one event or an array of events with their idempotency keys. Throws a 400 with all faults, or a 409 if the only fault
 * is an event type that only Halcyon publishes. `isArray` decides the form of the response.
 */
export function readPublish(body: unknown, { header, fingerprintKeys, ...context }: ReadPublishOptions): PublishInput {
  const isArray = Array.isArray(body);
  const list: readonly unknown[] = isArray ? body : [body];
  if (list.length === 0 || list.length > context.limits.eventsPerRequest) {
    const code = list.length === 0 ? 'required' : 'too_many';
    throw invalid({ code, message: `Send 1 to ${context.limits.eventsPerRequest} events at once`, field: 'body' });
  }
  const faults: Fault[] = [];
  const positionOf = (index: number): string => (isArray ? `${index}.` : '');
  const events = list.flatMap((value, index) => readEvent(value, positionOf(index), context, faults) ?? []);
  const names = list.map((value, index) =>
    readKeyOfEvent(
      isObject(value) ? value['idempotency_key'] : undefined,
      `${positionOf(index)}idempotency_key`,
      faults,
    ),
  );
  validateKeys(names, { header, isArray }, faults);
  if (faults.length > 0) throw new Problem(faults.every(({ code }) => code === INTERNAL) ? 409 : 400, faults);
  return { events, keys: keysOf(events, names, { header, isArray, fingerprintKeys }), isArray };
}

const id = Type.Unsafe<number | string>({
  anyOf: [
    { type: 'integer', minimum: 0 },
    { type: 'string', minLength: 1, maxLength: 64 },
  ],
  description: 'The id that the platform uses.',
});

const dateModified = clearableText({
  description:
    'Decides which version is the latest if several arrive out of order. A date such as 2026-11-20T16:05:03+0000; without an offset it is in the time zone of the store.',
});

/** Returns the schema of a resource that the platform sends. */
export function describeVersion({ eventLimitBytes, eventDepth }: EventLimits) {
  return Type.Object(
    { id, date_modified: dateModified },
    {
      additionalProperties: true,
      description: `The complete resource, with its id and any other properties: at most ${eventLimitBytes / 1024} KiB of JSON, ${eventDepth} levels deep. JSON text in a form.`,
    },
  );
}

/** Returns the schema of an event, for documentation and forms: `readPublish` validates events, and names the index of a fault. */
export function describePublishInput(limits: EventLimits): InputDescription {
  return {
    itemsMax: limits.eventsPerRequest,
    item: closedObject({
      event: Type.Unsafe<string>({
        enum: publishableEvents(),
        description: 'The event type. subscription_event/created only if the store has subscription_events: published.',
      }),
      resource: describeVersion(limits),
      idempotency_key: clearableText({
        maxLength: 255,
        description:
          'An idempotency key for this event: a repetition within 24 hours is published once. Alternative to the header Idempotency-Key, which applies to the whole request.',
      }),
    }),
  };
}
