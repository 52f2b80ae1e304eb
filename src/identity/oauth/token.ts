/** POST /token (RFC 6749 §3.2): parses the form, authenticates the client and runs the grant type. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler } from '#http/route.ts';
import type { RevocationEffects } from './grant-changes.ts';
import type { AuthenticateClient } from './client-auth.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from './errors.ts';
import { readForm } from './form.ts';
import { exchangeCode } from './grants/authorization-code.ts';
import { grantPlatform } from './grants/client-credentials.ts';
import { DEVICE_GRANT, exchangeDeviceCode } from './grants/device-code.ts';
import type { Exchange, GrantHandler, Rotation } from './grants/exchange.ts';
import { refreshAccess } from './grants/refresh-token.ts';
import type { Lifetimes } from './issue.ts';
import { areOwnResources } from './resource.ts';
import { findAuthenticatedClient } from './oauth-sql.ts';

const grants: ReadonlyMap<string, GrantHandler> = new Map([
  ['authorization_code', exchangeCode],
  ['refresh_token', refreshAccess],
  ['client_credentials', grantPlatform],
  [DEVICE_GRANT, exchangeDeviceCode],
]);

/**
 * Number of statements, including client authentication: 2 for a code, 1 for a refresh, 2 for client_credentials; 1 for a poll of a
 * device, 3 for its tokens.
 */
export function createTokenEndpoint(
  deps: RevocationEffects & {
    sql: Sql;
    authenticate: AuthenticateClient;
    lifetimes: Lifetimes;
    rotation: Rotation;
    baseUrl: string;
  },
): RawHandler {
  const { authenticate, baseUrl, ...rest } = deps;
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    const exchange: Exchange = {
      ...rest,
      form,
      authenticate: (find) => authenticate(request, form, find),
      refuse: async (fault) => {
        await authenticate(request, form, (claim) => findAuthenticatedClient(rest.sql.reads, claim));
        throw new TokenRefusal(fault);
      },
      origin: originOf(request),
      now: request.now,
    };
    if (!areOwnResources(request.form.getAll('resource'), baseUrl)) return exchange.refuse(tokenErrors.invalidTarget);
    if (form.grant_type === undefined) return exchange.refuse(tokenErrors.noGrantType);
    const grant = grants.get(form.grant_type);
    if (grant === undefined) return exchange.refuse(tokenErrors.unsupportedGrantType);
    return jsonAnswer(200, await grant(exchange));
  });
}
