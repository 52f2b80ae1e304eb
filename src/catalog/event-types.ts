/**
 * The event catalogue: each event that a webhook can subscribe to, with the JSON Schema of its `json` body, examples, and the
 * relations that `zoom` embeds. Made from the catalog, the schemas of internal types and the samples.
 */
import type { EventType } from '#http/relation.ts';
import { nameOf, type Naming, type Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import {
  declarationOf,
  isInternal,
  isMany,
  OPERATOR_EVENT,
  occurrencesOf,
  relationsOf,
  resourceTypes,
  titleOf,
  type ResourceType,
} from './catalog.ts';
import {
  CONCERNED,
  isObject,
  resourceDocument,
  resourceHead,
  type JsonObject,
  BARE_LINKS,
  FULL_SHAPE,
} from './resource-document.ts';
import { INTERNAL_SCHEMAS } from './internal-types.ts';
import { openedSchema } from './own/own-schema.ts';
import { descriptionOf, EXAMPLE_STORE, frozenSample, sampleOf, sampleResource } from './sample.ts';

/** Returns the values of `zoom` for each relation, the outer ones first. */
function zoomsOf(relations: Relations, above = ''): readonly string[] {
  return Object.entries(relations).flatMap(([rel, nested]) => [above + rel].concat(zoomsOf(nested, `${above}${rel}:`)));
}

const LINK: JsonObject = { type: 'object', properties: { href: { type: 'string' } }, required: ['href'] };

/** Returns the schema of the links. `optional`: relations that have a link if they have content. */
function linksSchema(naming: Naming, required: readonly string[], optional: readonly string[] = []): JsonObject {
  const named = (rel: string) => nameOf(rel, naming);
  return {
    type: 'object',
    properties: { curies: { type: 'array' }, ...Object.fromEntries(optional.map((rel) => [named(rel), LINK])) },
    additionalProperties: LINK,
    required: ['curies', ...required.map(named)],
  };
}

/** Describes the properties of a sample by name only, because publishers declare no types. */
const sampleProperties = (sample: Value): JsonObject =>
  Object.fromEntries(
    Object.entries(isObject(sample) ? sample : {}).map(([name, value]) => [name, { examples: [value] }]),
  );

const firstOf = (sample: Value): Value => (Array.isArray(sample) ? ((sample as readonly Value[])[0] ?? {}) : sample);

/** Returns the schema of `_embedded`, which has a relation only if `zoom` names it and the publisher embedded it. */
function embeddedSchema(relations: Relations, naming: Naming, sample: Value | undefined): JsonObject {
  const entries = Object.entries(relations).map(([rel, nested]): [string, Value] => {
    const { _embedded: below, ...properties } = firstOf((sample as JsonObject)[rel] ?? {}) as JsonObject;
    const copy: JsonObject = {
      type: 'object',
      properties: {
        ...sampleProperties(properties),
        ...(Object.keys(nested).length > 0 && { _embedded: embeddedSchema(nested, naming, below) }),
      },
    };
    const list: JsonObject = { type: 'array', items: copy };
    const description = descriptionOf(rel).about;
    // A publisher may embed one resource under the name of a list, and a list under the name of one.
    return [nameOf(rel, naming), { description, anyOf: isMany(rel) ? [list, copy] : [copy, list] }];
  });
  return { type: 'object', properties: Object.fromEntries(entries) };
}

/** The members that the platform must publish; all others are its own, unless the operator's file has a schema. */
function published(type: ResourceType): JsonObject {
  const { properties, required, ...own } = openedSchema(declarationOf(type)?.check?.schema ?? {});
  return {
    ...own,
    properties: {
      ...sampleProperties(sampleOf(type)),
      id: { type: ['integer', 'string'], description: 'The id that the platform uses.' },
      ...properties,
    },
    required: ['id', ...required.filter((name) => name !== 'id')],
  };
}

/** The members that Halcyon writes, as plain JSON. */
function internal(type: keyof typeof INTERNAL_SCHEMAS): JsonObject {
  const { type: _object, ...members } = JSON.parse(JSON.stringify(INTERNAL_SCHEMAS[type])) as JsonObject;
  return members;
}

const isMadeByHalcyon = (type: ResourceType): type is keyof typeof INTERNAL_SCHEMAS =>
  Object.hasOwn(INTERNAL_SCHEMAS, type);

function ownSchema(type: ResourceType): JsonObject {
  if (!isMadeByHalcyon(type)) return published(type);
  if (isInternal(type)) return internal(type);
  return {
    anyOf: [
      { title: 'Derived by Halcyon', ...internal(type) },
      { title: 'Published by the platform', ...published(type) },
    ],
  };
}

/**
 * Returns the JSON Schema (2020-12) of the body of a delivery with the format `json`. Receivers must accept further members. A
 * `query` with `fields` leaves out properties, also required ones.
 */
function schemaOf(type: ResourceType, naming: Naming): JsonObject {
  const relations = relationsOf(type);
  const { properties, ...own } = ownSchema(type);
  const { links } = resourceHead({ storeId: EXAMPLE_STORE, type, id: '1', baseUrl: naming.baseUrl });
  const required = links.map(({ rel }) => rel);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: titleOf(type),
    description: descriptionOf(type).about,
    type: 'object',
    ...own,
    required: ['_links', ...((own['required'] ?? []) as readonly Value[])],
    properties: {
      _links: linksSchema(naming, required, Object.keys(type === OPERATOR_EVENT ? CONCERNED : relations)),
      ...(Object.keys(relations).length > 0 && {
        _embedded: embeddedSchema(relations, naming, sampleResource(type)['_embedded']),
      }),
      ...(properties as JsonObject | undefined),
      is_sample: { description: 'true in test deliveries.' },
    },
  };
}

/** Returns the JSON Schema of an event that has only the id of its resource. */
function bareSchemaOf(type: ResourceType, naming: Naming): JsonObject {
  const { properties, required: _, ...whole } = schemaOf(type, naming);
  const { id, is_sample } = properties as JsonObject;
  const _links = linksSchema(naming, [...BARE_LINKS]);
  return { ...whole, required: ['_links', 'id'], properties: { _links, id, is_sample } as JsonObject };
}

function bareExampleOf(type: ResourceType, { baseUrl }: Naming): EventType['examples'][number] {
  const { id = null } = sampleResource(type);
  const frozen = frozenSample(type, baseUrl, { id });
  return { query: '', document: resourceDocument(frozen, { ...FULL_SHAPE, links: BARE_LINKS }) };
}

function examplesOf(type: ResourceType, zooms: readonly string[], { baseUrl }: Naming): EventType['examples'] {
  const frozen = frozenSample(type, baseUrl);
  const plain = { query: '', document: resourceDocument(frozen, FULL_SHAPE) };
  if (zooms.length === 0) return [plain];
  const document = resourceDocument(frozen, { ...FULL_SHAPE, zoom: relationsOf(type) });
  return [plain, { query: `zoom=${zooms.join(',')}`, document }];
}

function publishersOf(type: ResourceType): EventType['publishedBy'] {
  if (isInternal(type)) return ['halcyon'];
  return isMadeByHalcyon(type) ? ['halcyon', 'platform'] : ['platform'];
}

/** Returns all events of the catalog, in its order, with the names and addresses of this server. */
export function eventTypes(naming: Naming): readonly EventType[] {
  return resourceTypes().flatMap((type) => {
    const zooms = zoomsOf(relationsOf(type));
    const shared = {
      resource: { type, title: titleOf(type), about: descriptionOf(type).about },
      version: declarationOf(type)?.version ?? null,
      publishedBy: publishersOf(type),
      zooms,
      schema: schemaOf(type, naming),
      examples: examplesOf(type, zooms, naming),
    };
    const bare = {
      ...shared,
      isBare: true,
      zooms: [],
      schema: bareSchemaOf(type, naming),
      examples: [bareExampleOf(type, naming)],
    };
    return [...occurrencesOf(type)].map(([event, { when, since, kind }]) => {
      const publishedBy: EventType['publishedBy'] = kind === 'erasure' ? ['halcyon'] : shared.publishedBy;
      return Object.assign({}, kind === undefined ? shared : bare, { event, when, since, publishedBy });
    });
  });
}
