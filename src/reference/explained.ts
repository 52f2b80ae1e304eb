/** A relation joined with what stands behind its address: what pages, documents and the machine-readable description tell. */
import { bodyOf, fieldsOf } from '#http/actions.ts';
import type { Operation } from '#http/operation.ts';
import type { Chapter, Endpoint, Relation } from '#http/relation.ts';
import { rootOf } from '#http/root.ts';
import { METHODS, type Method, type Params, type Resource, type Route } from '#http/route.ts';
import type { Document, Field, Naming } from '#hypermedia/document.ts';

/** One method of an address. */
export type Doing = {
  method: Method;
  title: string;
  summary: string;
  access: Operation['access'];
  fields: readonly Field[];
  modifiers: readonly string[];
  /** Of a listing: the properties it is ordered and narrowed by. */
  comparable: readonly string[];
};

/** An address with its parameters in braces, the path of its route below `{base_url}`, and what can be done there. */
export type Place = { path: string; address: string; doings: readonly Doing[] };

export type Explained = Omit<Relation, 'example' | 'paths'> & {
  chapter: string;
  places: readonly Place[];
  endpoints: readonly Endpoint[];
  example: Document | undefined;
};

export type Explanations = { chapters: readonly Chapter[]; byRel: ReadonlyMap<string, Explained> };

/** `given` are parameters of the path that have one value. */
export const doingOf = (method: Method, operation: Operation, given: Params = {}): Doing => ({
  method,
  title: operation.title,
  summary: operation.summary,
  access: operation.access,
  fields: fieldsOf(bodyOf(operation)),
  modifiers: operation.modifiers,
  comparable: Object.entries(operation.closedAt?.(given) ?? operation.properties ?? {})
    .filter(([, comparison]) => comparison !== 'none')
    .map(([name]) => name),
});

const doingsOf = ({ operations }: Resource, given: Params | undefined): Doing[] =>
  METHODS.flatMap((method) => {
    const operation = operations[method];
    return operation === undefined ? [] : [doingOf(method, operation, given)];
  });

/** `:webhook_id` → `{webhook_id}`, and what is given in its place. */
export const templateOf = (path: string, given: Readonly<Record<string, string>> = {}): string =>
  path.replaceAll(/:(\w+)/g, (_, name: string) => given[name] ?? `{${name}}`);

/** The path of the table under which a relation's address is found. */
const routePathOf = (path: string, root: string): string => (path === '/' ? root || '/' : root + path);

/** Every relation of every chapter, by name. */
export const explain = (chapters: readonly Chapter[], routes: readonly Route[], naming: Naming): Explanations => {
  const root = rootOf(naming.baseUrl);
  const resources = new Map(routes.flatMap((route) => (route.kind === 'resource' ? [[route.path, route]] : [])));
  const endpoints = chapters.flatMap((chapter) => chapter.endpoints ?? []);
  const explained = chapters.flatMap((chapter) =>
    chapter.relations.map(({ example, paths = [], ...relation }): [string, Explained] => {
      const { rel, given } = relation;
      const places = paths.map((path): Place => {
        const route = resources.get(routePathOf(path, root));
        const address = naming.baseUrl + templateOf(path, given);
        return { path, address, doings: route === undefined ? [] : doingsOf(route, given) };
      });
      const own = endpoints.filter((endpoint) => endpoint.rel === rel);
      return [rel, { ...relation, chapter: chapter.title, places, endpoints: own, example: example?.(naming) }];
    }),
  );
  return { chapters, byRel: new Map(explained) };
};
