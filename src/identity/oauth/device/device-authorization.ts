/** POST /device_authorization (RFC 8628 §3.1): a device without a browser gets a code for itself and one for its user. */
import { addressPrefix } from '#identity/accounts/throttle/prefix.ts';
import type { Throttle } from '#identity/accounts/throttle/throttle.ts';
import type { Sql } from '#db/pool.ts';
import { jsonAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';
import type { AuthenticateClient } from '../client-auth.ts';
import { answeringRefusals, tokenErrors, TokenRefusal } from '../errors.ts';
import { readForm } from '../form.ts';
import { findAuthenticatedClient } from '../oauth-sql.ts';
import { areOwnResources } from '../resource.ts';
import { mayAskFor, readScope } from '../scope.ts';
import { createToken } from '../tokens.ts';
import { insertDeviceAuthorization } from './device-sql.ts';
import { newUserCode, shownUserCode, userCodeHashes } from './user-code.ts';

const LIFETIME_SECONDS = 600;
/** The interval between polls of a device. */
const POLL_SECONDS = 5;

/** With a million waiting codes, one of 25,000 new user codes is taken. */
const USER_CODES_TRIED_MAX = 5;

type Deps = {
  sql: Sql;
  authenticate: AuthenticateClient;
  throttle: Throttle;
  baseUrl: string;
  authUrl: string;
  userCodeKeys: Keys;
};

/**
 * Limits the device codes of all clients at an address together: with open registration anyone has clients with a secret, too. A
 * request counts before the client is known, so that refused ones are limited as well.
 */
async function throttleRequest({ throttle }: Deps, { address, now }: RawRequest): Promise<void> {
  const taken = await throttle.take([{ limit: 'device codes to address', subject: addressPrefix(address) }], now);
  if (taken.allowed) return;
  throw new TokenRefusal(tokenErrors.tooManyDevices, { 'Retry-After': String(taken.retryAfterSeconds) });
}

async function start(deps: Deps, client: number, scope: string, now: Date) {
  const { sql, userCodeKeys } = deps;
  const { value, hash } = createToken('deviceCode');
  const expires = new Date(now.getTime() + LIFETIME_SECONDS * 1_000);
  for (let tried = 0; tried < USER_CODES_TRIED_MAX; tried += 1) {
    const userCode = newUserCode();
    const [userCodeHash] = userCodeHashes(userCodeKeys, userCode);
    const row = { hash, userCodeHash, client, scope, intervalSeconds: POLL_SECONDS, expires };
    if (await insertDeviceAuthorization(sql, row)) return { deviceCode: value, userCode: shownUserCode(userCode) };
  }
  throw new Error(`${USER_CODES_TRIED_MAX} new user codes were all taken`);
}

export function createDeviceAuthorization(deps: Deps): RawHandler {
  const { sql, authenticate, baseUrl, authUrl } = deps;
  return answeringRefusals(async (request) => {
    const form = readForm(request);
    await throttleRequest(deps, request);
    const client = await authenticate(request, form, (claim) => findAuthenticatedClient(sql.reads, claim));
    if (!client.allowsDeviceGrant) throw new TokenRefusal(tokenErrors.unauthorizedClient);
    if (!areOwnResources(request.form.getAll('resource'), baseUrl)) throw new TokenRefusal(tokenErrors.invalidTarget);
    const { scope } = form;
    if (scope === undefined) throw new TokenRefusal(tokenErrors.noScope);
    const requested = readScope(scope);
    if (requested === undefined) throw new TokenRefusal(tokenErrors.unsupportedScope);
    if (!mayAskFor(client.scopes, requested)) throw new TokenRefusal(tokenErrors.unregisteredScope);
    const { deviceCode, userCode } = await start(deps, client.id, scope, request.now);
    const verificationUri = `${authUrl}/device`;
    return jsonAnswer(200, {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: verificationUri,
      verification_uri_complete: `${verificationUri}?${new URLSearchParams({ user_code: userCode }).toString()}`,
      expires_in: LIFETIME_SECONDS,
      interval: POLL_SECONDS,
    });
  });
}
