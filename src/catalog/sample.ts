/**
 * Makes a sample resource of each type with all relations embedded, from explained.json and the examples of the operator. It contains
 * no customer data.
 */
import type { Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import {
  declarationOf,
  isMany,
  labelOf,
  relationsOf,
  titleOf,
  typeOfCollection,
  type ResourceType,
} from './catalog.ts';
import { embeddedUnder, isObject, type JsonObject } from './resource-document.ts';
import explained from './explained.json' with { type: 'json' };

type Description = { title: string; about: string; sample?: JsonObject | readonly JsonObject[] };

/** Returns the title for use inside a sentence. */
export function lowerCaseTitle(name: string): string {
  return titleOf(name).replace(/^./, (first) => first.toLowerCase());
}

/** Returns the description of a type, collection or relation of the operator; a generic one for relations, of which files have none. */
function ownDescriptionOf(rel: string): Description {
  const { description } = declarationOf(rel) ?? {};
  if (description !== undefined) return description;
  if (typeOfCollection(rel) !== undefined)
    return { title: titleOf(rel), about: `The ${labelOf(rel)} of a store, in their latest versions.` };
  return {
    title: titleOf(rel),
    about: `The resources that the platform embedded under ${lowerCaseTitle(rel)}.`,
    sample: isMany(rel) ? [{ id: 1 }] : { id: 1 },
  };
}

export function descriptionOf(rel: string): Description {
  const descriptions = explained as Readonly<Record<string, Description>>;
  return (Object.hasOwn(descriptions, rel) ? descriptions[rel] : undefined) ?? ownDescriptionOf(rel);
}

/** Returns one sample, or a list if the relation has many targets, without what is embedded. */
export function sampleOf(rel: string): Value {
  const example = declarationOf(rel)?.example;
  if (example !== undefined) {
    const { _links: _l, _embedded: _e, ...properties } = example;
    return properties;
  }
  const type = typeOfCollection(rel);
  return descriptionOf(rel).sample ?? (type === undefined ? {} : [sampleOf(type)]);
}

const isSample = (value: Value | undefined): value is JsonObject | readonly JsonObject[] =>
  isObject(value) || (Array.isArray(value) && value.length > 0 && value.every(isObject));

/** Returns what a sample embeds: what the example contains, else samples of the relations. */
const embedded = (relations: Relations, example: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(relations).map(([rel, nested]): [string, Value] => {
      const withEmbedded = (item: Value): Value => ({
        ...(item as JsonObject),
        _embedded: embedded(nested, item as JsonObject),
      });
      const given = embeddedUnder(example, rel);
      const sample = isSample(given) ? given : sampleOf(rel);
      return [rel, Array.isArray(sample) ? (sample as Value[]).map(withEmbedded) : withEmbedded(sample)];
    }),
  );

export function sampleIdOf(type: ResourceType): string {
  const { id } = sampleOf(type) as JsonObject;
  return typeof id === 'string' ? id : JSON.stringify(id);
}

/** Returns a sample resource in the form that a platform publishes. */
export function sampleResource(type: ResourceType): JsonObject {
  const example = declarationOf(type)?.example ?? {};
  return {
    ...(sampleOf(type) as JsonObject),
    _embedded: embedded(relationsOf(type), example),
  };
}
