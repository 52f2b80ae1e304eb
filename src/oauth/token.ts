/** POST /token (RFC 6749 §3.2): form → client → grant → answer. */
import { originOf } from '#accounts/audit/audit.ts';
import type { Sql } from '#database/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { DoorHandler } from '#http/route.ts';
import type { AuthenticateClient } from './client-auth.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './errors.ts';
import { readForm } from './form.ts';
import { exchangeCode } from './grants/authorization-code.ts';
import { grantPlatform } from './grants/client-credentials.ts';
import type { Grant, Rotation } from './grants/exchange.ts';
import { refreshAccess } from './grants/refresh-token.ts';
import type { Lifetimes } from './issue.ts';

const grants: ReadonlyMap<string, Grant> = new Map([
  ['authorization_code', exchangeCode],
  ['refresh_token', refreshAccess],
  ['client_credentials', grantPlatform],
]);

/** Statements, the client's authentication counted: 3 for a code, 2 for a refresh, 2 for client_credentials. */
export const createTokenEndpoint = (deps: {
  sql: Sql;
  authenticate: AuthenticateClient;
  lifetimes: Lifetimes;
  rotation: Rotation;
}): DoorHandler => {
  const { authenticate, ...rest } = deps;
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    const client = await authenticate(request, form);
    if (form.grant_type === undefined) throw new TokenRefusal(tokenErrors.noGrantType);
    const grant = grants.get(form.grant_type);
    if (grant === undefined) throw new TokenRefusal(tokenErrors.unsupportedGrantType);
    return jsonAnswer(200, await grant({ ...rest, client, form, origin: originOf(request), now: request.now }));
  });
};
