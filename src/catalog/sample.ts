/** Makes a sample resource of each type with all relations embedded, from explained.json. It contains no customer data. */
import type { Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { relationsOf, titleOf, typeOfCollection, type ResourceType } from './catalog.ts';
import type { JsonObject } from './document.ts';
import explained from './explained.json' with { type: 'json' };

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

type Description = { title: string; about: string; sample?: JsonObject | readonly JsonObject[] };

/** Returns the title for use inside a sentence. */
export function lowerCaseTitle(name: string): string {
  return titleOf(name).replace(/^./, (first) => first.toLowerCase());
}

/** Returns the description of a relation; a generic one for relations that an operator added to relations.json. */
export function descriptionOf(rel: string): Description {
  const descriptions = explained as Readonly<Record<string, Description>>;
  const description = Object.hasOwn(descriptions, rel) ? descriptions[rel] : undefined;
  return (
    description ?? {
      title: titleOf(rel),
      about: `The resources that the platform embedded under ${lowerCaseTitle(rel)}.`,
      sample: [{ id: 1 }],
    }
  );
}

/** Returns one sample, or a list if the relation has many targets. */
export function sampleOf(rel: string): Value {
  const type = typeOfCollection(rel);
  return descriptionOf(rel).sample ?? (type === undefined ? {} : [sampleOf(type)]);
}

const embedded = (relations: Relations): JsonObject =>
  Object.fromEntries(
    Object.entries(relations).map(([rel, nested]): [string, Value] => {
      const withEmbedded = (item: Value): Value => ({ ...(item as JsonObject), _embedded: embedded(nested) });
      const sample = sampleOf(rel);
      return [rel, Array.isArray(sample) ? (sample as Value[]).map(withEmbedded) : withEmbedded(sample)];
    }),
  );

/** Returns a sample resource in the form that a platform publishes. */
export function sampleResource(type: ResourceType): JsonObject {
  return {
    ...(sampleOf(type) as JsonObject),
    _embedded: embedded(relationsOf(type)),
  };
}
