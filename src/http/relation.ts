/** Documentation of link relations and events, declared by the modules that make them and rendered by src/reference. */
import type { TSchema } from 'typebox';
import type { Document, Naming, Value } from '#hypermedia/document.ts';
import { collection } from '#hypermedia/paging.ts';

export type Example = (naming: Naming) => Document;

export type Relation = {
  /** The name without its prefix: `webhooks`. */
  rel: string;
  title: string;
  /** One or two sentences. */
  about: string;
  /** The addresses as in src/server/routes.ts, below `{base_url}`; absent if the resource has no address of its own. */
  paths?: readonly string[];
  /** Values of path parameters, such as the name of a collection. */
  given?: Readonly<Record<string, string>>;
  /** The relations of the resources that a POST creates and returns, of which it returns one. */
  makes?: readonly string[];
  /** An example, made by the function that makes the real document. */
  example?: Example;
  /** Examples with other members, which the schema has as well: for other callers and states. */
  variants?: readonly Example[];
  /** An example of the response to an array of items. */
  results?: Example;
};

/** Documentation of an event that a webhook can subscribe to. */
export type EventType = {
  /** `<resource>/<action>`. */
  event: string;
  /** `type` is also a relation. */
  resource: { type: string; title: string; about: string };
  /** When it happens, in one sentence. */
  when: string;
  /** The first version of Halcyon with the event, or what the operator declares. */
  since: string;
  /** The version of the resource that the operator declares; null if there is none. */
  version: number | null;
  publishedBy: readonly ('platform' | 'halcyon')[];
  /** The relations that `zoom` embeds, outer ones first. */
  zooms: readonly string[];
  /** Whether its body has only the id of the resource, and links. */
  isBare?: boolean;
  /** The JSON Schema of a delivered representation. */
  schema: { readonly [name: string]: Value };
  /** What a webhook with this `query` receives. */
  examples: readonly { query: string; document: Document }[];
};

/** Documentation of a raw endpoint whose requests no schema validates, according to its RFC. */
export type Endpoint = {
  /** The relation that leads to it, if any. */
  rel?: string;
  address: string;
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  title: string;
  summary: string;
  /** How the caller is authenticated. */
  access: string;
  specification: string;
  /** The parameters, and where they are sent. */
  takes?: { in: 'query' | 'form' | 'json'; schema: TSchema };
  /** The meaning of each status. */
  answers: Readonly<Record<string, string>>;
  /** What a successful response contains, if anything: JSON, or a page for people. */
  returns?: TSchema | 'page';
  /** What other responses contain; `errors`: the errors of the API, in all its formats. */
  fails?: TSchema | 'page' | 'errors';
  /** A successful response. */
  example?: Value;
};

/** The documentation of one module. */
export type Chapter = {
  title: string;
  about: string;
  relations: readonly Relation[];
  endpoints?: readonly Endpoint[];
};

/** Returns the example of a collection with one item, at `path` below `{base_url}`. */
export function listExample(rel: string, title: string, path: string, item: Example): Example {
  return (naming) =>
    collection({
      name: rel,
      rel,
      title,
      path: naming.baseUrl + path,
      query: new URLSearchParams(),
      page: { offset: 0, limit: 20 },
      total: 1,
      items: [item(naming)],
    });
}
