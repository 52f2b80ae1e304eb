/**
 * What is done to a resource at an address of its own: `/webhooks/1/test` takes a POST and is nothing to read. It is told
 * with the resource, as an action of its documents, and a form for it stands on the resource's page.
 */
import type { Operation } from './operation.ts';
import { METHODS, type Resource, type Route } from './route.ts';

export type ActionRoute = {
  /** The last part of its address, the relation that leads there and the name of the action. */
  name: string;
  operation: Operation;
};

const parted = (path: string): { above: string; name: string } => {
  const at = path.lastIndexOf('/');
  return { above: path.slice(0, at), name: path.slice(at + 1) };
};

const isResource = (route: Route): route is Resource => route.kind === 'resource';

const isActionRoute = ({ path, operations }: Resource): boolean =>
  METHODS.every((method) => (operations[method] !== undefined) === (method === 'POST')) &&
  !parted(path).name.startsWith(':');

/** What can be done to the resource of a route, each below its address. */
export const actionRoutesOf = ({ path }: Resource, routes: readonly Route[]): ActionRoute[] =>
  routes.filter(isResource).flatMap((route): ActionRoute[] => {
    const { above, name } = parted(route.path);
    const operation = route.operations.POST;
    return operation !== undefined && above === path && isActionRoute(route) ? [{ name, operation }] : [];
  });

/** The resource to which it is done what stands behind the route; undefined where it is no deed. */
export const targetOf = (route: Resource, routes: readonly Route[]): Resource | undefined =>
  isActionRoute(route)
    ? routes.filter(isResource).find(({ path, operations }) => path === parted(route.path).above && operations.GET)
    : undefined;
