/** What commerce resources and everything that can be embedded in them mean: made from the catalogue, told by explained.json. */
import { listExample, type Chapter, type Example, type Relation } from '#http/relation.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { collectionOf, relationsOf, resourceTypes, type ResourceType } from './catalog.ts';
import { resourceDocument } from './document.ts';
import { sampleOf, sampleResource, spoken, wordsOf } from './sample.ts';

const STORE_ID = 1001;
const ITEM = '/stores/:store_id/:collection/:id';

const idOf = (type: ResourceType): string => JSON.stringify(sampleResource(type)['id']);

/** Ids are their publisher's, so each is an integer or a text. */
const withOpenIds = (document: Document): Document => ({
  ...document,
  properties: document.properties.map((one) => (/(?:^|_)id$/.test(one.name) ? { ...one, mayBeText: true } : one)),
  embedded: document.embedded.map((one) => ({ ...one, documents: one.documents.map(withOpenIds) })),
});

const example =
  (type: ResourceType, zoom: Relations): Example =>
  ({ baseUrl }) => {
    const frozen = { storeId: STORE_ID, type, id: idOf(type), baseUrl, body: JSON.stringify(sampleResource(type)) };
    return withOpenIds(resourceDocument(frozen, { zoom, fields: null }));
  };

/** Where a relation is found: `path` is what `zoom` names. */
type Place = { rel: string; type: ResourceType; path: string };

const placesIn = (type: ResourceType, relations: Relations, before = ''): Place[] =>
  Object.entries(relations).flatMap(([rel, below]) => {
    const path = before + rel;
    return [{ rel, type, path }, placesIn(type, below, `${path}:`)].flat();
  });

const places: ReadonlyMap<string, readonly Place[]> = Map.groupBy(
  resourceTypes.flatMap((type) => placesIn(type, relationsOf(type))),
  ({ rel }) => rel,
);

/** What a relation means, and how one comes by it. */
const aboutOf = (rel: string): string => {
  const ways = (places.get(rel) ?? []).map(({ type, path }) => `zoom=${path} of a ${spoken(type)}`);
  const { about } = wordsOf(rel);
  return ways.length === 0 ? about : `${about} It is embedded by ${ways.join(', or by ')}.`;
};

/** The first thing that stands under a relation. */
const foundAt =
  ({ type, path }: Place): Example =>
  (naming) => {
    const names = path.split(':');
    const zoom = names.reduceRight<Relations>((below, name) => ({ [name]: below }), {});
    const whole = example(type, zoom)(naming);
    const found = names.reduce<Document | undefined>((document) => document?.embedded[0]?.documents[0], whole);
    if (found === undefined) throw new Error(`There is no sample of ${path} in a ${type}`);
    return found;
  };

/** A relation that is no collection of its own; only what a resource has directly can be read at an address. */
const relationOf = (rel: string, place: Place): Relation => {
  const { title } = wordsOf(rel);
  const told = { rel, title, about: aboutOf(rel) };
  const item = foundAt(place);
  if (place.path !== rel) return { ...told, example: item };
  const collection = collectionOf(place.type);
  const address = `/stores/${STORE_ID}/${collection}/${idOf(place.type)}/${rel}`;
  const single: Example = (naming) => ({
    ...item(naming),
    links: [{ rel: 'self', href: naming.baseUrl + address, title: spoken(rel) }],
  });
  return {
    ...told,
    paths: [`${ITEM}/:relation`],
    given: { collection, relation: rel },
    example: Array.isArray(sampleOf(rel)) ? listExample(rel, spoken(rel), address, item) : single,
  };
};

const resourceRelations = (type: ResourceType): Relation[] => {
  const collection = collectionOf(type);
  const item = example(type, {});
  return [
    {
      rel: collection,
      title: wordsOf(collection).title,
      about: aboutOf(collection),
      paths: ['/stores/:store_id/:collection'],
      given: { collection },
      example: listExample(collection, spoken(collection), `/stores/${STORE_ID}/${collection}`, item),
    },
    {
      rel: type,
      title: wordsOf(type).title,
      about: aboutOf(type),
      paths: [ITEM],
      given: { collection },
      example: item,
    },
  ];
};

const resources = resourceTypes.flatMap(resourceRelations);
const told = new Set(resources.map(({ rel }) => rel));

export const commerceChapter: Chapter = {
  title: 'Commerce',
  about:
    'What the store sells and to whom, as the platform published it: read here, in the shape that zoom and fields ask for, and delivered by webhooks in the same shape.',
  relations: [
    ...resources,
    ...[...places].flatMap(([rel, [place]]) => (place === undefined || told.has(rel) ? [] : [relationOf(rel, place)])),
  ],
};
