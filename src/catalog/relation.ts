/** API operations that read an embedded relation at its own address, from the latest version of its resource. */
import { listing } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { parseExact } from '#core/exact-number.ts';
import { notFound } from '#core/problem.ts';
import { resourceNotFound, resourceKeyOf, resourceScopes } from './access.ts';
import { isMany, relationsOf, titleOf, typeOfCollection, labelOf, zoomableOf } from './catalog.ts';
import type { CommerceDeps } from './collection.ts';
import { addressOf, embeddedDocument, nameOf, type JsonObject } from './document.ts';
import { currencyOf } from './kinds.ts';
import { listEmbedded, type ListedEmbedded, type ResourceKey } from './catalog-sql.ts';
import { shapeOf } from './shape.ts';

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the resource and the relation of the address. Throws a 404 if its type has no such relation. */
function keyOf(request: AddressedRequest): ResourceKey & { rel: string } {
  const key = resourceKeyOf(request);
  const rel = request.params['relation'] ?? '';
  if (!Object.hasOwn(relationsOf(key.type), rel)) throw notFound('relation');
  return { ...key, rel };
}

/** Returns the relations that can be embedded in the targets of this relation. */
function relationsBelow({ params }: Pick<AddressedRequest, 'params'>): Relations {
  const type = typeOfCollection(params['collection'] ?? '');
  const relations = type === undefined ? {} : zoomableOf(type);
  const rel = params['relation'] ?? '';
  return (Object.hasOwn(relations, rel) ? relations[rel] : undefined) ?? {};
}

const documentsOf = ({ rows, currency }: ListedEmbedded, rel: string, zoom: Relations): Document[] =>
  rows.map((row) => {
    const resource = parseExact(row) as JsonObject;
    return embeddedDocument(rel, resource, { currency: currencyOf({ currency_code: currency }), zoom });
  });

const resourceLink = (key: ResourceKey, baseUrl: string): Link => ({
  rel: key.type,
  href: addressOf({ ...key, baseUrl }),
  title: nameOf(key),
});

const titleFor = ({ type, id, rel }: ResourceKey & { rel: string }): string =>
  `${titleOf(rel)} of ${labelOf(type)} ${id}`;

const createMany = ({ search, relationPrefix, baseUrl }: CommerceDeps): Operation =>
  listing({
    summary:
      'The targets of one relation of this resource, in pages, filtered by any property; a relation with a single target accepts only fields and zoom',
    ...resourceScopes(),
    title: 'Embedded resources',
    rel: 'embedded',
    properties: {},
    isOpen: true,
    relations: relationsBelow,
    handle: async (request) => {
      const key = keyOf(request);
      const found = await search(key.storeId, request.listing, (tx) => listEmbedded(tx, key, request.listing));
      if (found === undefined) throw resourceNotFound(key.type);
      const back = resourceLink(key, found.baseUrl);
      return {
        rel: key.rel,
        title: titleFor(key),
        // The page uses the current base URL, its items the one of their version.
        path: `${resourceLink(key, baseUrl).href}/${key.rel}`,
        items: documentsOf(found, key.rel, request.zoom),
        total: found.total,
        links: [back],
        naming: { baseUrl: found.baseUrl, relationPrefix },
      };
    },
  });

const FIRST = { offset: 0, limit: 1, order: [], filters: [] };

/**
 * Creates the operation that reads a relation with one target. If nothing is embedded it returns a document without properties
 * instead of a 404, because all representations link to it, including those delivered earlier.
 */
const createOne = ({ sql, relationPrefix }: CommerceDeps): Operation =>
  guarded({
    summary: 'The single target of this relation; without properties if there is none',
    ...resourceScopes(),
    modifiers: ['zoom', 'fields'],
    handle: async (request) => {
      const key = keyOf(request);
      const { zoom, fields } = shapeOf(request.query, relationsBelow(request));
      const found = await listEmbedded(sql, key, FIRST);
      if (found === undefined) throw resourceNotFound(key.type);
      const back = resourceLink(key, found.baseUrl);
      const [only] = documentsOf(found, key.rel, zoom);
      const properties = only?.properties.filter(({ name }) => fields === null || fields.has(name)) ?? [];
      const title = only === undefined ? `${back.title} has no ${labelOf(key.rel)}` : titleFor(key);
      const self = { rel: 'self', href: `${back.href}/${key.rel}`, title };
      const document = { name: key.rel, title, links: [self, back], properties, embedded: only?.embedded ?? [] };
      return { status: 200, document, naming: { baseUrl: found.baseUrl, relationPrefix } };
    },
  });

/**
 * Creates the operation of all relations. The name of a relation decides whether it is a list, so the form of the response is
 * always the same.
 */
export function createRelation(deps: CommerceDeps): Operation {
  const [many, one] = [createMany(deps), createOne(deps)];
  return {
    ...many,
    handle: (request, once) => (isMany(request.params['relation'] ?? '') ? many : one).handle(request, once),
  };
}
