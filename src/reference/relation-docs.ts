/** Joins each relation with the operations of its addresses, for pages, documents and OpenAPI. */
import { documentedBody, fieldsOf } from '#http/actions.ts';
import type { Operation } from '#http/operation.ts';
import type { Chapter, Endpoint, Relation } from '#http/relation.ts';
import { METHODS, rootOf, type Method, type Params, type Resource, type Route } from '#http/route.ts';
import type { Comparisons } from '#core/listing.ts';
import type { SufficientScopes } from '#core/principal.ts';
import type { Document, Field, Naming } from '#hypermedia/document.ts';

/** A method of an address. */
export type MethodDoc = {
  method: Method;
  title: string;
  summary: string;
  access: Operation['access'];
  /** The limited scopes that suffice; `any` of them for some reads. */
  scopes: SufficientScopes;
  fields: readonly Field[];
  modifiers: readonly string[];
  /** For listings: how the properties of the items are compared; with `isOpen` they have others as well. */
  properties: Comparisons;
  isOpen: boolean;
  /** The properties that `fields` may name; none if any. */
  selects: readonly string[];
};

/** An address with its parameters in braces, the path of its route below `{base_url}`, and its methods. */
export type AddressDoc = { path: string; address: string; methodDocs: readonly MethodDoc[] };

export type RelationDoc = Omit<Relation, 'example' | 'paths' | 'variants' | 'results'> & {
  chapter: string;
  addressDocs: readonly AddressDoc[];
  endpoints: readonly Endpoint[];
  example: Document | undefined;
  variants: readonly Document[];
  results: Document | undefined;
};

export type RelationDocs = { chapters: readonly Chapter[]; byRel: ReadonlyMap<string, RelationDoc> };

/** Returns the properties to sort and filter by. */
export function comparableOf({ properties }: Pick<MethodDoc, 'properties'>): string[] {
  return Object.keys(properties).filter((name) => properties[name] !== 'none');
}

/** Describes a method. `given` contains path parameters with a fixed value. */
export function methodDocOf(method: Method, operation: Operation, given: Params = {}): MethodDoc {
  const closed = operation.closedAt?.(given);
  const properties = closed ?? operation.properties ?? {};
  const isOpen = operation.isOpen && closed === undefined;
  return {
    method,
    title: operation.title,
    summary: operation.summary,
    access: operation.access,
    // The address of a template stands for all its resources.
    scopes: Object.keys(given).length === 0 ? operation.scopes : (operation.scopesAt?.(given) ?? operation.scopes),
    fields: fieldsOf(documentedBody(operation)),
    modifiers: operation.modifiers,
    properties,
    isOpen,
    selects:
      operation.selects ?? (isOpen ? [] : Object.keys(properties).filter((name) => properties[name] !== 'filterOnly')),
  };
}

const methodDocsOf = ({ operations }: Resource, given: Params | undefined): MethodDoc[] =>
  METHODS.flatMap((method) => {
    const operation = operations[method];
    return operation === undefined ? [] : [methodDocOf(method, operation, given)];
  });

/** Returns a path as a template: `:webhook_id` becomes `{webhook_id}`, or its value in `given`. */
export function templateOf(path: string, given: Readonly<Record<string, string>> = {}): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => given[name] ?? `{${name}}`);
}

/** Returns the route path of a relation's address. */
const routePathOf = (path: string, root: string): string => (path === '/' ? root || '/' : root + path);

/** Describes every relation of every chapter, by name. */
export function describeRelations(
  chapters: readonly Chapter[],
  routes: readonly Route[],
  naming: Naming,
): RelationDocs {
  const root = rootOf(naming.baseUrl);
  const resources = new Map(routes.flatMap((route) => (route.kind === 'resource' ? [[route.path, route]] : [])));
  const endpoints = chapters.flatMap((chapter) => chapter.endpoints ?? []);
  const relationDoc = chapters.flatMap((chapter) =>
    chapter.relations.map(({ example, paths = [], variants = [], results, ...relation }): [string, RelationDoc] => {
      const { rel, given } = relation;
      const addressDocs = paths.map((path): AddressDoc => {
        const route = resources.get(routePathOf(path, root));
        const address = naming.baseUrl + templateOf(path, given);
        return { path, address, methodDocs: route === undefined ? [] : methodDocsOf(route, given) };
      });
      const own = endpoints.filter((endpoint) => endpoint.rel === rel);
      const documents = {
        example: example?.(naming),
        variants: variants.map((variant) => variant(naming)),
        results: results?.(naming),
      };
      return [rel, { ...relation, chapter: chapter.title, addressDocs, endpoints: own, ...documents }];
    }),
  );
  return { chapters, byRel: new Map(relationDoc) };
}
