/** A made-up resource of each type, with everything that can be embedded in it: no real customer's data. Told by explained.json. */
import type { Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { relationsOf, titleOf, typeOfCollection, type ResourceType } from './catalog.ts';
import type { JsonObject } from './document.ts';
import explained from './explained.json' with { type: 'json' };

/** The action of an event that only tests. Nobody subscribes to it. */
const TEST = 'test';
const AS = `${TEST}:`;

/**
 * What a made-up event is called where it is kept. Asked for under a name of those that happen it is kept as `test:created`, so that
 * nobody takes it for one that did: neither a list of events nor a recovery.
 */
export const testAction = (action: string | null): string => (action === null ? TEST : AS + action);

export const isTest = (action: string | null): boolean => action === TEST || action?.startsWith(AS) === true;

/** What an event is called where it is sent. */
export const sentAction = (action: string): string => (action.startsWith(AS) ? action.slice(AS.length) : action);

type Words = { title: string; about: string; sample?: JsonObject | readonly JsonObject[] };

/** Inside of a sentence. */
export const spoken = (name: string): string => titleOf(name).replace(/^./, (first) => first.toLowerCase());

/** An operator may extend relations.json by a relation of which nobody has told anything. */
export const wordsOf = (rel: string): Words => {
  const told = explained as Readonly<Record<string, Words>>;
  const words = Object.hasOwn(told, rel) ? told[rel] : undefined;
  return (
    words ?? { title: titleOf(rel), about: `What the platform embedded under ${spoken(rel)}.`, sample: [{ id: 1 }] }
  );
};

/** One sample, or a list where a relation leads to many. */
export const sampleOf = (rel: string): Value => {
  const type = typeOfCollection(rel);
  return wordsOf(rel).sample ?? (type === undefined ? {} : [sampleOf(type)]);
};

const embedded = (below: Relations): JsonObject =>
  Object.fromEntries(
    Object.entries(below).map(([rel, further]): [string, Value] => {
      const whole = (item: Value): Value => ({ ...(item as JsonObject), _embedded: embedded(further) });
      const sample = sampleOf(rel);
      return [rel, Array.isArray(sample) ? (sample as Value[]).map(whole) : whole(sample)];
    }),
  );

/** As a platform publishes one. */
export const sampleResource = (type: ResourceType): JsonObject => ({
  ...(sampleOf(type) as JsonObject),
  _embedded: embedded(relationsOf(type)),
});
