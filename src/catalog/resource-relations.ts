/** Documentation of the relations of commerce resources, made from the catalog and the descriptions in explained.json. */
import { listExample, type Chapter, type Example, type Relation } from '#http/relation.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import { collectionOf, relationsOf, resourceTypes, type ResourceType } from './catalog.ts';
import { resourceDocument, FULL_SHAPE } from './resource-document.ts';
import { EXAMPLE_STORE, frozenSample, sampleIdOf, sampleOf, lowerCaseTitle, descriptionOf } from './sample.ts';

const ITEM = '/stores/:store_id/:collection/:id';

/** Marks what publishers choose: which members there are, except `id`, and whether an id is an integer or a text. */
export function asPublished(document: Document): Document {
  return {
    ...document,
    properties: document.properties.map((one) => ({
      ...one,
      published: /(?:^|_)id$/.test(one.name) ? 'id' : 'value',
      ...(one.name !== 'id' && { mayBeNull: true, mayBeAbsent: true }),
    })),
    embedded: document.embedded.map((one) => ({ ...one, documents: one.documents.map(asPublished) })),
  };
}

const example =
  (type: ResourceType, zoom: Relations): Example =>
  ({ baseUrl }) =>
    asPublished(resourceDocument(frozenSample(type, baseUrl), { ...FULL_SHAPE, zoom }));

/** The occurrence of a relation; `path` is its value of `zoom`. */
type Place = { rel: string; type: ResourceType; path: string };

const placesIn = (type: ResourceType, relations: Relations, before = ''): Place[] =>
  Object.entries(relations).flatMap(([rel, nested]) => {
    const path = before + rel;
    return [{ rel, type, path }, placesIn(type, nested, `${path}:`)].flat();
  });

type Places = ReadonlyMap<string, readonly Place[]>;

const allPlaces = (): Places =>
  Map.groupBy(
    resourceTypes().flatMap((type) => placesIn(type, relationsOf(type))),
    ({ rel }) => rel,
  );

const withArticle = (noun: string): string => `${/^[aeiou]/i.test(noun) ? 'an' : 'a'} ${noun}`;

/** Returns the description of a relation and the `zoom` values that embed it. */
function aboutOf(rel: string, places: Places): string {
  const zooms = (places.get(rel) ?? []).map(({ type, path }) => `zoom=${path} of ${withArticle(lowerCaseTitle(type))}`);
  const { about } = descriptionOf(rel);
  return zooms.length === 0 ? about : `${about} It is embedded by ${zooms.join(', or by ')}.`;
}

/** Returns an example of the first target of a relation. */
const foundAt =
  ({ type, path }: Place): Example =>
  (naming) => {
    const names = path.split(':');
    const zoom = names.reduceRight<Relations>((nested, name) => ({ [name]: nested }), {});
    const whole = example(type, zoom)(naming);
    const found = names.reduce<Document | undefined>((document) => document?.embedded[0]?.documents[0], whole);
    if (found === undefined) throw new Error(`There is no sample of ${path} in a ${type}`);
    return found;
  };

/** Returns the documentation of a relation that is not a collection. Only direct relations of a resource have an address. */
function relationOf(rel: string, place: Place, places: Places): Relation {
  const { title } = descriptionOf(rel);
  const base = { rel, title, about: aboutOf(rel, places) };
  const item = foundAt(place);
  if (place.path !== rel) return { ...base, example: item };
  const collection = collectionOf(place.type);
  const address = `/stores/${EXAMPLE_STORE}/${collection}/${sampleIdOf(place.type)}/${rel}`;
  const single: Example = (naming) => ({
    ...item(naming),
    links: [{ rel: 'self', href: naming.baseUrl + address, title: lowerCaseTitle(rel) }],
  });
  return {
    ...base,
    paths: [`${ITEM}/:relation`],
    given: { collection, relation: rel },
    example: Array.isArray(sampleOf(rel)) ? listExample(rel, lowerCaseTitle(rel), address, item) : single,
  };
}

function resourceRelations(type: ResourceType, places: Places): Relation[] {
  const collection = collectionOf(type);
  const item = example(type, {});
  return [
    {
      rel: collection,
      title: descriptionOf(collection).title,
      about: aboutOf(collection, places),
      paths: ['/stores/:store_id/:collection'],
      given: { collection },
      example: listExample(collection, lowerCaseTitle(collection), `/stores/${EXAMPLE_STORE}/${collection}`, item),
    },
    {
      rel: type,
      title: descriptionOf(type).title,
      about: aboutOf(type, places),
      paths: [ITEM],
      given: { collection },
      example: item,
      variants: [example(type, relationsOf(type))],
    },
  ];
}

/** Returns the documentation of all resources, also of those that the operator declares. */
export function commerceChapter(): Chapter {
  const places = allPlaces();
  const resources = resourceTypes().flatMap((type) => resourceRelations(type, places));
  const documented = new Set(resources.map(({ rel }) => rel));
  return {
    title: 'Commerce',
    about:
      'The transactions, subscriptions and customers of the store, as published by the platform. GET and webhooks return the same representation, selected by zoom and fields.',
    relations: [
      ...resources,
      ...[...places].flatMap(([rel, [place]]) =>
        place === undefined || documented.has(rel) ? [] : [relationOf(rel, place, places)],
      ),
    ],
  };
}
