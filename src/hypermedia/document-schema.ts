/** What schemas of documents in every format share. */
import type { Document, Naming, Value } from './document.ts';

export type JsonSchema = { readonly [keyword: string]: Value };

/** `examples` contains the documents that have a schema of their own, by the name of the schema. */
export type SchemaContext = { naming: Naming; examples: ReadonlyMap<string, Document> };

/** Returns the reference to a schema of OpenAPI's components. */
export function referTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Returns whether a document is a page of a collection, whose own members `fields` does not select. */
export function isPaged({ links }: Document): boolean {
  return links.some(({ rel }) => rel === 'last');
}

/** Returns the name of the schema of a document of which `fields` may select members. */
export function selectionOf(name: string): string {
  return `${name}_selection`;
}
