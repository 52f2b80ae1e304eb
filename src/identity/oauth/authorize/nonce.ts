/** Binds the nonce of the consent form to the authorization request. */
import type { AuthorizationRequest } from './authorization-request.ts';

export function boundToRequest(request: AuthorizationRequest): readonly unknown[] {
  const { client, redirectUri, scope, state, codeChallenge } = request;
  return ['authorize', client.id, redirectUri, scope.scope, scope.storeId ?? null, state, codeChallenge];
}
