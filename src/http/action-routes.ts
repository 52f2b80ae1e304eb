/**
 * Action routes: POST-only addresses below a resource, such as `/webhooks/1/test`. Each is shown as an action in the
 * documents of its resource and as a form on its page.
 */
import type { Operation } from './operation.ts';
import { METHODS, type Resource, type Route } from './route.ts';

export type ActionRoute = {
  /** The last segment of the address; also the link relation and the name of the action. */
  name: string;
  operation: Operation;
};

function splitPath(path: string): { parent: string; name: string } {
  const at = path.lastIndexOf('/');
  return { parent: path.slice(0, at), name: path.slice(at + 1) };
}

const isResource = (route: Route): route is Resource => route.kind === 'resource';

const isActionRoute = ({ path, operations }: Resource): boolean =>
  METHODS.every((method) => (operations[method] !== undefined) === (method === 'POST')) &&
  !splitPath(path).name.startsWith(':');

/** Returns the action routes directly below the path of a resource. */
export function actionRoutesOf({ path }: Resource, routes: readonly Route[]): ActionRoute[] {
  return routes.filter(isResource).flatMap((route): ActionRoute[] => {
    const { parent, name } = splitPath(route.path);
    const operation = route.operations.POST;
    return operation !== undefined && parent === path && isActionRoute(route) ? [{ name, operation }] : [];
  });
}

/** Returns the resource that an action route acts on; undefined if the route is not an action route. */
export function targetOf(route: Resource, routes: readonly Route[]): Resource | undefined {
  return isActionRoute(route)
    ? routes.filter(isResource).find(({ path, operations }) => path === splitPath(route.path).parent && operations.GET)
    : undefined;
}
