/** Schemas of the documents of relations in OpenAPI. */
import type { Document, Embedded, Link, Naming, Property } from '#hypermedia/document.ts';
import { isPaged, selectionOf, type JsonSchema } from '#hypermedia/document-schema.ts';
import { formats } from '#hypermedia/render.ts';
import type { RelationDoc } from '../relation-docs.ts';
import type { Json } from './input.ts';

/** Returns the first link of each relation, or all of the document where the relation has most. */
function mergeLinks(all: readonly (readonly Link[])[]): Link[] {
  const byRel = all.map((links) => Map.groupBy(links, ({ rel }) => rel));
  const rels = new Set(byRel.flatMap((links) => [...links.keys()]));
  return [...rels].flatMap((rel) => {
    const targets = byRel.map((links) => links.get(rel) ?? []);
    return targets.toSorted((a, b) => b.length - a.length)[0] ?? [];
  });
}

const firstOfEach = <T>(all: readonly T[], key: (one: T) => string): T[] =>
  [...new Map(all.toReversed().map((one) => [key(one), one])).values()].toReversed();

const absent = (property: Property): Property => ({ ...property, mayBeAbsent: true });

/** Returns a document with the members of all variants of a relation's document; those that one of them lacks may be absent. */
function mergeVariants(first: Document, variants: readonly Document[]): Document {
  const documents = [first, ...variants];
  const isEverywhere = ({ name }: Property): boolean =>
    documents.every(({ properties }) => properties.some((property) => property.name === name));
  const properties = firstOfEach(
    documents.flatMap((document) => document.properties),
    ({ name }) => name,
  );
  return {
    ...first,
    links: mergeLinks(documents.map(({ links }) => links)),
    embedded: firstOfEach(
      documents.flatMap(({ embedded }) => embedded),
      ({ rel }: Embedded) => rel,
    ),
    properties: properties.map((property) => (isEverywhere(property) ? property : absent(property))),
  };
}

/** Returns the name of the schema of a relation's document; `fields` of the request may select its members. */
export function schemaName({ rel, example }: RelationDoc, hasFields: boolean): string {
  return hasFields && example !== undefined && !isPaged(example) ? selectionOf(rel) : rel;
}

/** Returns the documentation of the response to an array as if it had a relation of its own. */
export function resultsOf(relation: RelationDoc): RelationDoc[] {
  const { rel, results } = relation;
  return results === undefined ? [] : [{ ...relation, rel: `${rel}_results`, example: results, variants: [] }];
}

/** Returns the schemas of the documents of all relations, and those that they refer to, by name. */
export function schemasOf(relations: Iterable<RelationDoc>, naming: Naming): Readonly<Record<string, JsonSchema>> {
  const examples = new Map(
    [...relations].flatMap(({ rel, example, variants }): [string, Document][] =>
      example === undefined ? [] : [[rel, mergeVariants(example, variants)]],
    ),
  );
  const ofDocuments = formats.flatMap(({ schemas }) =>
    [...examples].flatMap(([name, document]) => Object.entries(schemas?.(name, document, { naming, examples }) ?? {})),
  );
  return Object.fromEntries([...formats.flatMap(({ components = {} }) => Object.entries(components)), ...ofDocuments]);
}

const referredIn = (kind: string, value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(new RegExp(`"#/components/${kind}/([^"]+)"`, 'g'))].map(([, name = '']) => name);

/** Returns the components of a kind, such as `schemas`, that `roots` refer to, directly or by each other. */
export function usedComponents(kind: string, components: Json, roots: unknown): Json {
  const used = new Set(referredIn(kind, roots));
  // The iteration of a set visits what is added meanwhile.
  for (const name of used) for (const other of referredIn(kind, components[name] ?? null)) used.add(other);
  return Object.fromEntries(Object.entries(components).filter(([name]) => used.has(name)));
}
