/** Binds the nonce of the consent form to the authorization request. */
import { scopeNames } from '../scope.ts';
import type { AuthorizationRequest } from './authorization-request.ts';

export function boundToRequest(request: AuthorizationRequest): readonly unknown[] {
  const { client, redirectUri, scope, state, codeChallenge } = request;
  const names = scopeNames(scope).join(' ');
  return ['authorize', client.id, redirectUri, names, scope.storeId ?? null, state, codeChallenge];
}
