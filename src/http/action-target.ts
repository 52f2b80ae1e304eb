/**
 * The target of an address: the resource of its route or, for an action route, the resource that it acts on. Action routes are
 * POST-only addresses below a resource, such as `/webhooks/1/test`; each is shown as an action in the documents of its resource and
 * as a form on its page.
 */
import type { Operation } from './operation.ts';
import { METHODS, type Resource, type Route, type Params } from './route.ts';
import type { FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import { parseId } from '#core/ids.ts';
import type { WithActions } from './actions.ts';
import type { Caller } from './caller.ts';
import type { Run } from './resource.ts';
import { pathOf, type Services } from './services.ts';

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

export type Target = {
  isActionRoute: boolean;
  read: Run | undefined;
  withActions: WithActions;
};

/** Returns the path of the target from the requested path. */
export function targetPath(target: Target, request: FastifyRequest): string {
  const path = pathOf(request);
  return target.isActionRoute ? path.slice(0, path.lastIndexOf('/')) : path;
}

/** Returns the document address for `WithActions`. */
export function documentAddress({ params }: FastifyRequest, href: string) {
  return {
    href,
    storeId: parseId((params as Params)['store_id'] ?? ''),
    userId: parseId((params as Params)['user_id'] ?? ''),
  };
}

export type TargetRequest = { request: FastifyRequest; caller: Caller; target: Target };

/**
 * Adds the actions of the target to its document. A document that an action route returns instead of its target has
 * none of them.
 */
export function withActionsOf(
  services: Services,
  document: Document,
  { request, caller, target }: TargetRequest,
): Document {
  const address = new URL(targetPath(target, request), services.naming.baseUrl).href;
  const isOther = target.isActionRoute && !document.links.some(({ rel, href }) => rel === 'self' && href === address);
  return isOther ? document : target.withActions(document, caller, documentAddress(request, address));
}
