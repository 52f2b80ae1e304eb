/**
 * The operator's file (`EVENTS_FILE`) of further resource types, events and relations, and of schemas that publishes must match:
 * docs/events-of-your-own.md.
 */
import { closedObject } from '#http/inputs.ts';
import { ConfigError } from '#core/config-error.ts';
import { visit } from 'jsonc-parser';
import { Type, type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Relations } from '#hypermedia/list-query.ts';
import {
  builtInEntryOf,
  builtInTypes,
  collectionOf,
  declareResources,
  isInternal,
  type Declaration,
  type Occurrence,
} from '../catalog.ts';
import { isObject, type JsonObject } from '../resource-document.ts';
import { sampleOf } from '../sample.ts';
import { compileCheck, compileSchema, faultsAgainst, openedSchema, pointerOf, schemaFaults } from './own-schema.ts';

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Names that the resources and relations of the operator cannot have; test/journeys/own-events.test.ts compares them with the API. */
const RESERVED: ReadonlySet<string> = new Set([
  // Relations of the API that are not in the catalog, and segments of addresses below a store.
  ...words(`
    accept answer authorize awaited_member awaited_members cancel client clients concerned_store docs docs_page error errors event event_type event_types events failure failures grant grants
    health healths home install installs invitation invitations jwks links listen listing live load log logs member members openapi options overview
    passing payload portal_link preceding received_invitation receiving recover recoveries recovery register relation relations request resend resource retry
    retry_pending rotate_key sample_events sandbox_store search send_webhooks status statuses store stores test token user users webhook webhooks`),
  // Relations that IANA registers, which have no prefix; schemas of /openapi.json; types of scripts/payload-types.ts.
  ...words('curies first last next prev related self'),
  'link',
  ...words('bare embedded links_to payloads properties webhook_event'),
  // A member of every JavaScript object.
  'constructor',
]);

/** Names that Halcyon makes: of schemas in /openapi.json, and of the scope `store_id_…`. */
const MADE = /^(?:post|put|patch|store_id)_|_(?:selection|results|entity|resource)$/;

export function isReserved(name: string): boolean {
  return RESERVED.has(name) || MADE.test(name);
}

/** The setting of a process: the path of the file, as the operator wrote it, and what is in the file. */
export type DeclarationFile = { path: string; text: string };

const TYPES_MAX = 50;
/** A webhook can subscribe to 100 events. */
const EVENTS_PER_TYPE_MAX = 50;
const SCHEMA_BYTES_MAX = 64 * 1024;
const EXAMPLE_BYTES_MAX = 64 * 1024;
/** What `zoom` accepts. */
const RELATION_PATHS_MAX = 50;
const RELATION_DEPTH_MAX = 4;
const TITLE_LENGTH_MAX = 80;
const SENTENCES_LENGTH_MAX = 1_000;
const SINCE_LENGTH_MAX = 40;
const VERSION_MAX = 1_000_000;
const REPORTED_FAULTS_MAX = 10;

const sentences = Type.String({ minLength: 1, maxLength: SENTENCES_LENGTH_MAX });
const object = Type.Unsafe<JsonObject>({ type: 'object' });

const Resource = closedObject({
  title: Type.Optional(Type.String({ minLength: 1, maxLength: TITLE_LENGTH_MAX })),
  description: Type.Optional(sentences),
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: VERSION_MAX })),
  plural: Type.Optional(Type.String()),
  events: Type.Optional(
    Type.Record(
      Type.String(),
      closedObject({ when: sentences, since: Type.String({ minLength: 1, maxLength: SINCE_LENGTH_MAX }) }),
      { maxProperties: EVENTS_PER_TYPE_MAX },
    ),
  ),
  relations: Type.Optional(object),
  schema: Type.Optional(object),
  example: Type.Optional(object),
});

const File = closedObject({
  resources: Type.Record(Type.String(), Resource, { minProperties: 1, maxProperties: TYPES_MAX }),
});

type Resource = Static<typeof Resource>;
type Resources = Static<typeof File>['resources'];

const NAME = /^[a-z][a-z0-9_]{0,39}$/;
const NAME_RULE = 'use lower-case letters, digits and _, at most 40, a letter first';
/** Actions of events that Halcyon sends by itself. */
const OWN_ACTIONS = new Set(['test', 'refeed']);

/** Returns all names in a tree of relations. */
const namesIn = (relations: Relations): string[] =>
  Object.entries(relations).flatMap(([name, nested]) => [name].concat(namesIn(nested)));

/** The names of built-in types, collections and relations, of which own types cannot have one. */
const builtInNames: ReadonlySet<string> = new Set(
  builtInTypes.flatMap((type) => [type, collectionOf(type), ...namesIn(builtInEntryOf(type)?.relations ?? {})]),
);

const pluralOf = (type: string, { plural = `${type}s` }: Resource): string => plural;

function typeNameFaults(type: string, resource: Resource, all: Resources, at: string): string[] {
  const plural = pluralOf(type, resource);
  if (!NAME.test(type)) return [`${at}: ${NAME_RULE}`];
  if (!NAME.test(plural)) return [`${at}/plural: ${NAME_RULE}`];
  const taken = [type, plural].find((name) => builtInNames.has(name) || isReserved(name));
  if (taken !== undefined) return [`${at}: choose another name, because ${taken} is a name of the API`];
  // JSON has each type once.
  const others = Object.entries(all).filter(([other]) => other !== type);
  const isTaken = plural === type || others.some(([other, one]) => other === plural || pluralOf(other, one) === plural);
  return isTaken ? [`${at}: choose another name, because ${plural} is a resource, too`] : [];
}

function relationFaults(relations: JsonObject, at: string, depth = 1): string[] {
  return Object.entries(relations).flatMap(([name, nested]) => {
    const path = `${at}/${name}`;
    if (!NAME.test(name)) return [`${path}: ${NAME_RULE}`];
    if (isReserved(name)) return [`${path}: choose another name, because ${name} is a name of the API`];
    if (!isObject(nested)) return [`${path}: write the relations below it as an object, or {} if there are none`];
    if (depth === RELATION_DEPTH_MAX && Object.keys(nested).length > 0)
      return [`${path}: remove the relations below it; at most ${RELATION_DEPTH_MAX} levels are possible`];
    return relationFaults(nested, path, depth + 1);
  });
}

/** Returns the faults of the names of events and relations, which built-in types may have already. */
function namesFaults(type: string, { events = {}, relations = {} }: Resource, at: string): string[] {
  const builtIn = builtInEntryOf(type);
  const eventFaults = Object.keys(events).flatMap((action) => {
    const path = `${at}/events/${action}`;
    if (!NAME.test(action)) return [`${path}: ${NAME_RULE}`];
    const isTaken = OWN_ACTIONS.has(action) || builtIn?.events.has(action) === true;
    return isTaken ? [`${path}: choose another name, because Halcyon has the event ${type}/${action}`] : [];
  });
  const faults = relationFaults(relations, `${at}/relations`);
  const taken = Object.keys(relations).filter(
    (name) => builtIn !== undefined && Object.hasOwn(builtIn.relations, name),
  );
  faults.push(...taken.map((name) => `${at}/relations/${name}: remove it, ${type} has it already`));
  if (faults.length === 0 && namesIn(relations as Relations).length > RELATION_PATHS_MAX)
    faults.push(`${at}/relations: remove some; at most ${RELATION_PATHS_MAX} are possible, at all levels`);
  return [...eventFaults, ...faults];
}

const MEMBERS_OF_OWN_TYPES = ['title', 'description', 'events', 'example'] as const;

/** Returns which members are missing, or impossible because Halcyon has them. */
function memberFaults(type: string, resource: Resource, at: string): string[] {
  const builtIn = builtInTypes.find((one) => one === type);
  if (builtIn === undefined) {
    const missing = MEMBERS_OF_OWN_TYPES.filter((name) => resource[name] === undefined);
    if (missing.length > 0) return [`${at}: add ${missing.join(', ')}`];
    return Object.keys(resource.events ?? {}).length === 0 ? [`${at}/events: add an event`] : [];
  }
  if (isInternal(builtIn) || builtIn === 'subscription_event')
    return [`${at}: remove it, because Halcyon makes these resources itself`];
  const named = (['title', 'description', 'plural'] as const).filter((name) => resource[name] !== undefined);
  return named.map((name) => `${at}/${name}: remove it, because Halcyon has one`);
}

const bytesOf = (value: JsonObject): number => Buffer.byteLength(JSON.stringify(value));

function sizeFaults({ schema, example }: Resource, at: string): string[] {
  const limits = [
    ['schema', schema, SCHEMA_BYTES_MAX],
    ['example', example, EXAMPLE_BYTES_MAX],
  ] as const;
  return limits.flatMap(([name, value, maxBytes]) =>
    value !== undefined && bytesOf(value) > maxBytes ? [`${at}/${name}: shorten it to ${maxBytes} bytes`] : [],
  );
}

/** Returns the fault of an example without an id, and those of an example that its schema refuses. */
function exampleFaults(type: string, { schema, example }: Resource, at: string): string[] {
  const shown = example ?? sampleOf(type);
  const id = isObject(shown) ? shown['id'] : undefined;
  if (typeof id !== 'number' && typeof id !== 'string')
    return [`${at}/example: add an id, as the platform publishes it`];
  if (schema === undefined) return [];
  try {
    const faults = faultsAgainst(compileSchema(schema), shown, `${at}/example`);
    if (faults.length > 0 && example === undefined)
      return [`${at}: add an example that matches the schema, because the built-in one does not`];
    if (faults.length > 0) return faults.map((fault) => `${fault}: change the example or the schema`);
    const { _embedded, ...properties } = shown as JsonObject;
    const isOpen = compileSchema(openedSchema(schema)).Check({ ...properties, _links: {} });
    return isOpen ? [] : [`${at}/schema: refuse further members at its top only: deliveries add _links`];
  } catch (error) {
    return [`${at}/schema: it cannot be compiled (${(error as Error).message})`];
  }
}

function faultsOf(type: string, resource: Resource, all: Resources): string[] {
  const at = `/resources/${type}`;
  const isOwn = builtInEntryOf(type) === undefined;
  const faults = [
    ...(isOwn ? typeNameFaults(type, resource, all, at) : []),
    ...memberFaults(type, resource, at),
    ...namesFaults(type, resource, at),
    ...sizeFaults(resource, at),
    ...(resource.schema === undefined ? [] : schemaFaults(resource.schema, `${at}/schema`)),
  ];
  return faults.length > 0 ? faults : exampleFaults(type, resource, at);
}

function declarationIn([type, resource]: [string, Resource]): Declaration {
  const { title, description, version, plural, events = {}, relations = {}, schema, example } = resource;
  return {
    type,
    events: new Map(Object.entries<Occurrence>(events)),
    relations: relations as Relations,
    version: version ?? null,
    ...(plural !== undefined && { plural }),
    ...(title !== undefined && description !== undefined && { description: { title, about: description } }),
    ...(example !== undefined && { example }),
    ...(schema !== undefined && { check: { schema, faultsOf: compileCheck(schema) } }),
  };
}

/** Returns the members that an object has twice: of those, `JSON.parse` would drop the first. */
function repeatedMembers(text: string): string[] {
  const objects: Set<string>[] = [];
  const faults: string[] = [];
  visit(text, {
    onObjectBegin: () => void objects.push(new Set()),
    onObjectEnd: () => void objects.pop(),
    onObjectProperty: (name, _offset, _length, _line, _character, pathOfObject) => {
      const names = objects.at(-1);
      if (names?.has(name) === true) {
        const path = pointerOf([...pathOfObject().map(String), name]);
        faults.push(`${path}: remove one of the two members of this name`);
      }
      names?.add(name);
    },
  });
  return faults;
}

/** Deeper than any file needs to be, and not too deep for the functions that call themselves for each level. */
const DEPTH_MAX = 100;

/** Returns at most how many objects and arrays of JSON are nested. */
function depthOf(text: string): number {
  let [depth, most] = [0, 0];
  for (const [sign] of text.matchAll(/[{}[\]]/g)) {
    depth += sign === '{' || sign === '[' ? 1 : -1;
    most = Math.max(most, depth);
  }
  return most;
}

/** Throws a `ConfigError` with the faults of the file of a setting, at most ten. */
export function refuseFile({ path }: DeclarationFile, setting: string, faults: readonly string[]): never {
  throw new ConfigError(`${setting} is "${path}": ${faults.slice(0, REPORTED_FAULTS_MAX).join('; ')}`);
}

/** Returns the value of a file that matches the schema. Throws a `ConfigError` for another one, and for repeated members. */
export function readFileOf<Schema extends TSchema>(
  file: DeclarationFile,
  setting: string,
  schema: Schema,
): Static<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(file.text);
    if (depthOf(file.text) > DEPTH_MAX) throw new RangeError('it is nested too deep');
  } catch (error) {
    return refuseFile(file, setting, [`it is not JSON (${(error as Error).message}): correct it there`]);
  }
  if (!isObject(value)) return refuseFile(file, setting, ['write an object with the member resources']);
  const repeated = repeatedMembers(file.text);
  if (repeated.length > 0) return refuseFile(file, setting, repeated);
  const compiled = Compile(schema);
  return compiled.Check(value) ? value : refuseFile(file, setting, faultsAgainst(compiled, value));
}

const SETTING = 'EVENTS_FILE';

/** Returns what the file declares. Throws a `ConfigError` with its faults. */
export function readDeclarations(file: DeclarationFile): readonly Declaration[] {
  const { resources } = readFileOf(file, SETTING, File);
  const faults = Object.entries(resources).flatMap(([type, resource]) => faultsOf(type, resource, resources));
  return faults.length > 0 ? refuseFile(file, SETTING, faults) : Object.entries(resources).map(declarationIn);
}

/** Adds what the file declares to the catalog of this process; without a file, the catalog has the built-in types only. */
export function declareFile(file: DeclarationFile | undefined): void {
  declareResources(file === undefined ? [] : readDeclarations(file));
}
