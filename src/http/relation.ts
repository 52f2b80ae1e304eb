/** What a link relation means, told by the room whose documents use it; src/reference shows it to people and programs. */
import type { TSchema } from 'typebox';
import type { Document, Naming, Value } from '#hypermedia/document.ts';
import { collection } from '#hypermedia/page.ts';

export type Example = (naming: Naming) => Document;

export type Relation = {
  /** As in a link, without its prefix: `webhooks`. */
  rel: string;
  title: string;
  /** One or two sentences for people. */
  about: string;
  /** Where it leads, as src/server/routes.ts has it below `{base_url}`; absent where it has no address of its own. */
  paths?: readonly string[];
  /** Parameters of the path that have one value here: a collection's name. */
  given?: Readonly<Record<string, string>>;
  /** The relation of what a POST here makes, and answers with. */
  makes?: string;
  /** What is read there, made by the function that makes the real one. */
  example?: Example;
};

/** An address that a door answers in the words of a protocol, where no schema judges: told as its RFC has it. */
export type Endpoint = {
  /** The relation that leads there, where one does. */
  rel?: string;
  address: string;
  method: 'GET' | 'POST';
  title: string;
  summary: string;
  /** How the caller shows who they are. */
  access: string;
  specification: string;
  /** What it takes, and where. */
  takes?: { in: 'query' | 'form' | 'json'; schema: TSchema };
  /** What each status of an answer means. */
  answers: Readonly<Record<string, string>>;
  /** What stands in an answer that went well. */
  example?: Value;
};

/** What one room explains. */
export type Chapter = {
  title: string;
  about: string;
  relations: readonly Relation[];
  endpoints?: readonly Endpoint[];
};

/** A collection with one item, at `path` below `{base_url}`. */
export const listExample =
  (rel: string, title: string, path: string, item: Example): Example =>
  (naming) =>
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
