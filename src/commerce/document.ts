/**
 * The one function that makes what GET answers and what a webhook carries. Everything it draws from is frozen with the
 * version: the published JSON, the base URL, and the relation prefix the reader was told.
 */
import type { Document, Embedded, Link, Value } from '#hypermedia/document.ts';
import { json } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import { collectionOf, relationsOf, type ResourceType } from './catalogue.ts';
import type { Shape } from './shape.ts';

type JsonObject = { readonly [name: string]: Value };

/** A version of a resource as it was published. `body` is its JSON text. */
export type Frozen = { storeId: number; type: ResourceType; id: string; baseUrl: string; body: string };

/** An event as it was frozen at its commit: what is published and what is delivered speak of it in the same words. */
export type FrozenEvent = {
  id: number;
  type: ResourceType;
  resourceId: string;
  action: string;
  version: number;
  /** Random, and stored with the event: part of every webhook-id. */
  nonce: number;
  baseUrl: string;
  body: string;
};

const isObject = (value: Value | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What the publisher embedded under a relation, with or without a prefix in its name. */
const embeddedUnder = (resource: JsonObject, relation: string): Value | undefined => {
  const all = resource['_embedded'];
  if (!isObject(all)) return undefined;
  const name = Object.keys(all).find((key) => key === relation || key.endsWith(`:${relation}`));
  return name === undefined ? undefined : all[name];
};

const propertiesOf = (resource: JsonObject, fields: ReadonlySet<string> | null) =>
  Object.entries(resource)
    .filter(([name]) => name !== '_links' && name !== '_embedded' && (fields === null || fields.has(name)))
    .map(([name, value]) => json(name, value));

const embed = (resource: JsonObject, zoom: Relations): Embedded[] =>
  Object.entries(zoom).flatMap(([rel, below]) => {
    const value = embeddedUnder(resource, rel);
    if (isObject(value)) return [{ rel, single: true, documents: [child(rel, value, below)] }];
    if (!Array.isArray(value)) return [];
    return [{ rel, documents: (value as readonly Value[]).filter(isObject).map((item) => child(rel, item, below)) }];
  });

/** An embedded copy: it belongs to the version it came with and has no address of its own. */
const child = (name: string, resource: JsonObject, zoom: Relations): Document => ({
  name,
  links: [],
  properties: propertiesOf(resource, null),
  embedded: embed(resource, zoom),
});

export const addressOf = ({ baseUrl, storeId, type, id }: Omit<Frozen, 'body'>): string =>
  `${baseUrl}/stores/${storeId}/${collectionOf(type)}/${encodeURIComponent(id)}`;

const linksOf = (frozen: Frozen): Link[] => {
  const self = addressOf(frozen);
  const relations = Object.keys(relationsOf(frozen.type));
  return [
    { rel: 'self', href: self, title: `This ${frozen.type.replaceAll('_', ' ')}` },
    { rel: 'store', href: `${frozen.baseUrl}/stores/${frozen.storeId}`, title: 'The store it belongs to' },
    ...relations.map((rel) => ({ rel, href: `${self}/${rel}`, title: rel.replaceAll('_', ' ') })),
  ];
};

const parse = (frozen: Frozen): JsonObject => JSON.parse(frozen.body) as JsonObject;

/** The representation of a version in the shape asked for. */
export const resourceDocument = (frozen: Frozen, shape: Shape): Document => {
  const resource = parse(frozen);
  return {
    name: frozen.type,
    links: linksOf(frozen),
    properties: propertiesOf(resource, shape.fields),
    embedded: embed(resource, shape.zoom),
  };
};

/** One relation of a version as Documents of their own; undefined where the publisher embedded nothing there. */
export const relationDocuments = (
  frozen: Frozen,
  rel: string,
): { single: boolean; documents: Document[] } | undefined => {
  const [embedded] = embed(parse(frozen), { [rel]: {} });
  if (embedded === undefined) return undefined;
  return { single: embedded.single === true, documents: [...embedded.documents] };
};
