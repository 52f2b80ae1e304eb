/** The API operation that erases a resource; needs the scope `platform`. */
import { resourceKeyOf } from '#catalog/access.ts';
import { collectionOf } from '#catalog/catalog.ts';
import { guarded, type Operation } from '#http/operation.ts';
import type { ChainDeps } from './chain.ts';
import { eraseResource } from './erase.ts';

export function createErasure(deps: ChainDeps & { baseUrl: string }): Operation {
  return guarded({
    title: 'Erase',
    isConditional: true,
    summary:
      'Erases this resource, its versions and the payloads of its events, immediately and permanently; needs the scope platform',
    access: 'platform',
    handle: async (request) => {
      const key = resourceKeyOf(request);
      await eraseResource(deps, key, request);
      return { status: 204, next: `${deps.baseUrl}/stores/${key.storeId}/${collectionOf(key.type)}` };
    },
  });
}
