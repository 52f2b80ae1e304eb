/** What a publisher embedded in a resource, read at an address of its own: from the latest version, as `zoom` shows it. */
import { listing } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import type { Document, Link, Value } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { notFound } from '#core/problem.ts';
import { noSuch, resourceKeyOf } from './access.ts';
import { isMany, relationsOf, titleOf, typeOfCollection, wordsOf } from './catalog.ts';
import type { CommerceDeps } from './collection.ts';
import { addressOf, embeddedDocument, nameOf } from './document.ts';
import { currencyOf } from './kinds.ts';
import { listEmbedded, type ListedEmbedded, type ResourceKey } from './catalog-sql.ts';
import { shapeOf } from './shape.ts';

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** Where the request leads: the resource and one of the relations that its kind has. */
const keyOf = (asked: Asked): ResourceKey & { rel: string } => {
  const key = resourceKeyOf(asked);
  const rel = asked.params['relation'] ?? '';
  if (!Object.hasOwn(relationsOf(key.type), rel)) throw notFound('relation');
  return { ...key, rel };
};

/** What can be embedded in what is found there. */
const relationsBelow = ({ params }: Pick<Asked, 'params'>): Relations => {
  const type = typeOfCollection(params['collection'] ?? '');
  const relations = type === undefined ? {} : relationsOf(type);
  const rel = params['relation'] ?? '';
  return (Object.hasOwn(relations, rel) ? relations[rel] : undefined) ?? {};
};

const documentsOf = ({ rows, currency }: ListedEmbedded, rel: string, zoom: Relations): Document[] =>
  rows.map((row) => {
    const resource = JSON.parse(row) as { readonly [name: string]: Value };
    return embeddedDocument(rel, resource, { currency: currencyOf({ currency_code: currency }), zoom });
  });

const wayBack = (key: ResourceKey, baseUrl: string): Link => ({
  rel: key.type,
  href: addressOf({ ...key, baseUrl }),
  title: nameOf(key),
});

const titleFor = ({ type, id, rel }: ResourceKey & { rel: string }): string =>
  `${titleOf(rel)} of ${wordsOf(type)} ${id}`;

const createMany = ({ search, relationPrefix, baseUrl }: CommerceDeps): Operation =>
  listing({
    summary:
      'What this resource has under one of its relations, a page at a time, by any property; where it has one thing there, only fields and zoom are parameters',
    title: 'What is embedded',
    rel: 'embedded',
    properties: {},
    isOpen: true,
    relations: relationsBelow,
    handle: async (request) => {
      const key = keyOf(request);
      const found = await search(key.storeId, request.listing, (tx) => listEmbedded(tx, key, request.listing));
      if (found === undefined) throw noSuch(key.type);
      const back = wayBack(key, found.baseUrl);
      return {
        rel: key.rel,
        title: titleFor(key),
        // The page is of today, what stands on it is frozen.
        path: `${wayBack(key, baseUrl).href}/${key.rel}`,
        items: documentsOf(found, key.rel, request.zoom),
        total: found.total,
        links: [back],
        naming: { baseUrl: found.baseUrl, relationPrefix },
      };
    },
  });

const FIRST = { offset: 0, limit: 1, order: [], filters: [] };

/**
 * Where nothing is embedded the answer is a document without properties, and not a 404: the link to it stands in every
 * representation, those that were delivered long ago included, and leads somewhere whatever later versions have embedded.
 */
const createOne = ({ sql, relationPrefix }: CommerceDeps): Operation =>
  guarded({
    summary: 'The one thing that this resource has under the relation; without properties where it has none',
    modifiers: ['zoom', 'fields'],
    handle: async (request) => {
      const key = keyOf(request);
      const { zoom, fields } = shapeOf(request.query, relationsBelow(request));
      const found = await listEmbedded(sql, key, FIRST);
      if (found === undefined) throw noSuch(key.type);
      const back = wayBack(key, found.baseUrl);
      const [only] = documentsOf(found, key.rel, zoom);
      const properties = only?.properties.filter(({ name }) => fields === null || fields.has(name)) ?? [];
      const title = only === undefined ? `${back.title} has no ${wordsOf(key.rel)}` : titleFor(key);
      const self = { rel: 'self', href: `${back.href}/${key.rel}`, title };
      const document = { name: key.rel, title, links: [self, back], properties, embedded: only?.embedded ?? [] };
      return { status: 200, document, naming: { baseUrl: found.baseUrl, relationPrefix } };
    },
  });

/** The relation's name says whether it leads to many, so that an address always answers in one shape. */
export const createRelation = (deps: CommerceDeps): Operation => {
  const [many, one] = [createMany(deps), createOne(deps)];
  return {
    ...many,
    handle: (request, once) => (isMany(request.params['relation'] ?? '') ? many : one).handle(request, once),
  };
};
