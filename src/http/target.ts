/** The target of an address: the resource of its route or, for an action route, the resource that it acts on. */
import type { FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import { parseId } from '#core/ids.ts';
import type { WithActions } from './actions.ts';
import type { Caller } from './caller.ts';
import type { Run } from './resource.ts';
import type { Params } from './route.ts';
import { pathOf, type Services } from './services.ts';

export type Target = {
  isActionRoute: boolean;
  read: Run | undefined;
  withActions: WithActions;
};

/** Returns the path of the target from the requested path. */
export function targetPath({ isActionRoute }: Target, request: FastifyRequest): string {
  const path = pathOf(request);
  return isActionRoute ? path.slice(0, path.lastIndexOf('/')) : path;
}

/** Returns the document address for `WithActions`. */
export function documentAddress({ params }: FastifyRequest, href: string) {
  return {
    href,
    storeId: parseId((params as Params)['store_id'] ?? ''),
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
