/** The resource behind an address: the one that stands there, or the one to which a deed below it is done. */
import type { FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import { parseId } from '#core/ids.ts';
import { createActions, type WithActions } from './actions.ts';
import type { Caller } from './caller.ts';
import { actionRoutesOf, targetOf } from './action-routes.ts';
import type { Params, Resource, Route } from './route.ts';
import { createRun, type Run } from './run.ts';
import { pathOf, type Services } from './services.ts';

export type Behind = {
  isAbove: boolean;
  read: Run | undefined;
  withActions: WithActions;
};

export const createBehind = (services: Services, route: Resource, routes: readonly Route[]): Behind => {
  const above = targetOf(route, routes);
  const stands = above ?? route;
  const { GET } = stands.operations;
  return {
    isAbove: above !== undefined,
    read: GET === undefined ? undefined : createRun(services, 'GET', GET),
    withActions: createActions(stands, actionRoutesOf(stands, routes)),
  };
};

/** Its path, from the one that was asked for. */
export const pathBehind = ({ isAbove }: Behind, request: FastifyRequest): string => {
  const path = pathOf(request);
  return isAbove ? path.slice(0, path.lastIndexOf('/')) : path;
};

/** The address, and the store that it names. */
export const whereOf = ({ params }: FastifyRequest, href: string) => ({
  href,
  storeId: parseId((params as Params)['store_id'] ?? ''),
});

export type Asked = { request: FastifyRequest; caller: Caller; behind: Behind };

/** What an address answered, with what can be done there; a deed may answer with something else, whose actions these are not. */
export const withActionsOf = (services: Services, document: Document, { request, caller, behind }: Asked): Document => {
  const address = new URL(pathBehind(behind, request), services.naming.baseUrl).href;
  const isElse = behind.isAbove && !document.links.some(({ rel, href }) => rel === 'self' && href === address);
  return isElse ? document : behind.withActions(document, caller, whereOf(request, address));
};
