/** POST /token (RFC 6749 §3.2): form → client → grant → answer. */
import type { Sql } from '#database/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { DoorHandler, DoorRequest } from '#http/route.ts';
import { authenticateClient } from './client-auth.ts';
import { tokenErrors, TokenRefusal } from './errors.ts';
import { readForm } from './form.ts';
import { exchangeCode } from './grants/authorization-code.ts';
import { grantPlatform } from './grants/client-credentials.ts';
import type { Grant } from './grants/exchange.ts';
import { refreshAccess } from './grants/refresh-token.ts';
import type { Lifetimes, TokenAnswer } from './issue.ts';

const grants: ReadonlyMap<string, Grant> = new Map([
  ['authorization_code', exchangeCode],
  ['refresh_token', refreshAccess],
  ['client_credentials', grantPlatform],
]);

const answerTo = async (sql: Sql, lifetimes: Lifetimes, request: DoorRequest): Promise<TokenAnswer> => {
  const { headers, now } = request;
  const form = readForm(request);
  const client = await authenticateClient(sql, { authorization: headers['authorization'], form, now });
  if (form.grant_type === undefined) throw new TokenRefusal(tokenErrors.noGrantType);
  const grant = grants.get(form.grant_type);
  if (grant === undefined) throw new TokenRefusal(tokenErrors.unsupportedGrantType);
  return grant({ sql, client, form, lifetimes, now });
};

/** Statements, the client's authentication counted: 3 for a code, 2 for a refresh, 2 for client_credentials. */
export const createTokenEndpoint = ({ sql, ...lifetimes }: { sql: Sql } & Lifetimes): DoorHandler => {
  return async (request) => {
    try {
      return jsonAnswer(200, await answerTo(sql, lifetimes, request));
    } catch (error) {
      if (!(error instanceof TokenRefusal)) throw error;
      const { status, error: code, description } = error.fault;
      return jsonAnswer(status, { error: code, error_description: description }, error.headers);
    }
  };
};
